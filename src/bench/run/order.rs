//! Jobs of a run, the order in which a repetition measures them, and the seed of the repetition.

use crate::bench::result::Cell;
use rand::{SeedableRng, rngs::SmallRng, seq::SliceRandom};

/// Splits the cells into jobs, each of which one process measures: the adjacent cells of a group, or a cell without a
/// group.
pub fn jobs(cells: &[Cell]) -> Vec<Vec<Cell>> {
    let together = |first: &Cell, next: &Cell| first.group.is_some() && first.group == next.group;
    cells.chunk_by(together).map(<[Cell]>::to_vec).collect()
}

/// Returns the indices of `jobs` jobs in a random order that differs between repetitions: an effect that a job leaves
/// behind (a hot CPU, a disk that still writes) then meets another job each time. The same seed gives the same order.
pub fn shuffled(jobs: usize, seed: u64, repetition: u32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..jobs).collect();
    // Keys are made from the seed too; the constant makes the two independent.
    let mut random = SmallRng::seed_from_u64(seed ^ 0x6f72_6465_7200_0000 ^ u64::from(repetition));
    order.shuffle(&mut random);
    order
}

/// Returns the seed of a repetition, from which keys, values and random choices of all cells are made: repetitions
/// differ in their data and hot keys, and the stores of one repetition do not. The first repetition has the seed of the
/// run.
pub fn seed_of(seed: u64, repetition: u32) -> u64 {
    // An odd constant (2^64 divided by the golden ratio) keeps the seeds of repetitions far apart: threads add
    // small numbers to them.
    seed.wrapping_add(u64::from(repetition).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_repetition_has_an_order_of_its_own_and_all_jobs() {
        let orders: Vec<_> = (0..5).map(|repetition| shuffled(12, 42, repetition)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..12).collect::<Vec<_>>());
        }
        assert!(orders.windows(2).all(|pair| pair[0] != pair[1]), "{orders:?}");
        assert_eq!(shuffled(12, 42, 3), orders[3]);
        assert_ne!(shuffled(12, 43, 3), orders[3]);
    }
}

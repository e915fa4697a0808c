//! Measurements of the data file itself, read by one thread without an engine.

use super::close_reopen::once;
use crate::bench::{
    data::{Data, RECORD_KEY, RECORD_VALUE, keys::mix},
    result::{CellKind, Measurement, Workload},
};
use std::{collections::HashMap, fs::File, hint, io, os::unix::fs::FileExt, path::Path, time::Instant};

/// Measures a cell that reads the data file (`--data`) without an engine; returns `None` for any other cell.
pub(super) fn measure(workload: &Workload) -> Option<Result<Measurement, String>> {
    let read = match workload.step {
        CellKind::SourceScan => scan,
        CellKind::SourceGet => get,
        _ => return None,
    };
    let path = workload.data.as_deref().ok_or("no file of pairs to read");
    Some(
        path.map_err(Into::into)
            .and_then(|path| read(Path::new(path), workload).map_err(|e| in_file(workload, &e))),
    )
}

/// Returns the message of an error in reading the data file of a workload, with its path.
pub(super) fn in_file(workload: &Workload, error: &dyn std::fmt::Display) -> String {
    format!("cannot read {}: {error}", workload.data.as_deref().unwrap_or("the data"))
}

/// Returns the number of pairs of the data file to read: the workload's number of operations, at most all pairs.
fn wanted(data: &Data, workload: &Workload) -> u64 {
    workload.operations.map_or(data.capacity(), |count| count.min(data.capacity()))
}

fn finished(operations: u64, begin: Instant) -> Measurement {
    let measured = Measurement { operations, ..once(begin) };
    Measurement { throughput: measured.operations as f64 / measured.seconds, ..measured }
}

/// Measures one read of the whole data file into memory, and then of each pair in order.
fn scan(path: &Path, workload: &Workload) -> io::Result<Measurement> {
    let begin = Instant::now();
    let data = Data::read(path)?;
    let wanted = wanted(&data, workload);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for index in 0..wanted {
        data.key(index, &mut key);
        data.value(index, 0, &mut value);
        hint::black_box((&key, &value));
    }
    Ok(finished(wanted, begin))
}

/// Measures reads of values from the data file one by one, by key: an index in memory, which is built before, holds
/// their positions.
fn get(path: &Path, workload: &Workload) -> io::Result<Measurement> {
    const RECORD: usize = RECORD_KEY + RECORD_VALUE;
    let (file, data) = (File::open(path)?, Data::read(path)?);
    let wanted = wanted(&data, workload);
    let mut places = HashMap::new();
    let (mut key, mut expected) = (Vec::new(), Vec::new());
    for index in 0..wanted {
        data.key(index, &mut key);
        places.insert(key.clone(), index * RECORD as u64 + RECORD_KEY as u64);
    }
    let mut value = [0; RECORD_VALUE];
    let (mut misses, begin) = (0, Instant::now());
    for number in 0..wanted {
        data.key(mix(number) % wanted.max(1), &mut key);
        match places.get(&key) {
            Some(place) => file.read_exact_at(&mut value, *place)?,
            None => misses += 1,
        }
        hint::black_box(&value);
    }
    let measured = finished(wanted, begin);
    // Only the last value is checked: all positions are computed in the same way.
    data.value(mix(wanted.saturating_sub(1)) % wanted.max(1), 0, &mut expected);
    let wrong_values = u64::from(expected != value);
    Ok(Measurement { misses, wrong_values, ..measured })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::data;

    #[test]
    fn a_value_is_read_by_its_key() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("blocks");
        data::generate(&path, 50, 1, 1.0).unwrap();
        let json = format!(
            r#"{{"name": "source get", "mix": {{}}, "keys": 0, "key_bytes": {{"fixed": 32}}, "data": "{}",
            "value_bytes": {{"fixed": 512}}, "order": "uniform", "threads": 1, "batch": 1, "seconds": null,
            "operations": 40, "warmup_seconds": 0, "rate": null, "scan_length": 1, "seed": 1, "step": "source-get"}}"#,
            path.display()
        );
        let workload: Workload = serde_json::from_str(&json).unwrap();
        let measured = measure(&workload).unwrap().unwrap();
        assert!(measured.is_sound() && measured.operations == 40, "{measured:?}");
        let scan = Workload { step: CellKind::SourceScan, operations: None, ..workload.clone() };
        assert_eq!(measure(&scan).unwrap().unwrap().operations, 50);
        assert!(measure(&Workload { step: CellKind::Count, ..workload }).is_none());
    }
}

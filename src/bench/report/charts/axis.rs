//! Axes of line charts.

/// Axis that maps values to positions in the picture.
#[derive(Clone, Copy)]
pub struct Axis {
    from: f64,
    to: f64,
    logarithmic: bool,
    /// Positions of both ends of the axis in the picture, in SVG units.
    ends: (f64, f64),
}

impl Axis {
    /// Creates a linear axis from 0 to `largest`, between the positions `ends` in the picture.
    pub fn linear(largest: f64, ends: (f64, f64)) -> Self {
        Self { from: 0.0, to: if largest > 0.0 { largest } else { 1.0 }, logarithmic: false, ends }
    }

    /// Creates a logarithmic axis that extends a little beyond two positive values, between the positions `ends` in the
    /// picture.
    pub fn logarithmic(smallest: f64, largest: f64, ends: (f64, f64)) -> Self {
        const ROOM: f64 = 1.3;
        Self { from: (smallest / ROOM).log10(), to: (largest * ROOM).log10(), logarithmic: true, ends }
    }

    /// Returns the position of a value in the picture, in SVG units.
    pub fn place(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.log10() } else { value };
        let part = (value - self.from) / (self.to - self.from);
        self.ends.0 + part * (self.ends.1 - self.ends.0)
    }

    /// Returns the values along the axis, at least two, at which the chart has labels: round values or, if a logarithmic
    /// axis is too short for two of them, its ends.
    pub fn ticks(&self) -> Vec<f64> {
        const STEPS: [&[f64]; 3] =
            [&[1.0], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]];
        if !self.logarithmic {
            return linear_ticks(self.to);
        }
        let round = STEPS.into_iter().map(|factors| self.steps(factors)).find(|values| values.len() > 1);
        round.unwrap_or_else(|| vec![10f64.powf(self.from), 10f64.powf(self.to)])
    }

    #[expect(clippy::cast_possible_truncation, reason = "a dozen decades")]
    fn steps(&self, factors: &[f64]) -> Vec<f64> {
        let decades = self.from.floor() as i32..=self.to.ceil() as i32;
        let values = decades.flat_map(|decade| factors.iter().map(move |factor| factor * 10f64.powi(decade)));
        values.filter(|value| (self.from..=self.to).contains(&value.log10())).collect()
    }
}

/// Returns three to six multiples of 1, 2 or 5 times a power of ten, from 0 to at most `largest`.
fn linear_ticks(largest: f64) -> Vec<f64> {
    let decade = 10f64.powf(largest.log10().floor());
    let fine = [0.2, 0.5, 1.0, 2.0].into_iter().map(|factor| factor * decade);
    let step = fine.into_iter().find(|step| largest / step <= 5.0).unwrap_or(decade * 5.0);
    (0..=5).map(|count| f64::from(count) * step).filter(|value| *value <= largest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(linear_ticks(10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(linear_ticks(430.0), [0.0, 100.0, 200.0, 300.0, 400.0]);
        let axis = Axis::logarithmic(0.5, 2000.0, (0.0, 100.0));
        assert_eq!(axis.ticks(), [1.0, 10.0, 100.0, 1000.0]);
    }

    /// A value without labels beside it cannot be read.
    #[test]
    fn a_short_logarithmic_axis_has_two_labels() {
        let ticks = |smallest, largest| Axis::logarithmic(smallest, largest, (0.0, 100.0)).ticks();
        assert_eq!(ticks(27.0, 36.0), [30.0, 40.0]);
        assert_eq!(ticks(2.7, 7.5), [3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        // Only 1.5 is round between the ends.
        let axis = Axis::logarithmic(1.32, 1.32, (0.0, 100.0));
        let places: Vec<_> = axis.ticks().into_iter().map(|value| axis.place(value).round()).collect();
        assert_eq!(places, [0.0, 100.0]);
    }

    #[test]
    fn ends_of_the_picture() {
        let axis = Axis::linear(10.0, (100.0, 0.0));
        assert_eq!((axis.place(0.0), axis.place(10.0)), (100.0, 0.0));
    }
}

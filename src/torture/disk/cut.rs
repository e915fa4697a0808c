//! Kinds of power cuts: which unsynced bytes and names are left on the medium.

use clap::ValueEnum;
use rand::{Rng, rngs::SmallRng};

/// Kind of power cut (`--cut`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cut {
    /// The power cut drops all unsynced bytes and names.
    Drop,
    /// The power cut leaves some unsynced pages, and the first of the unsynced names.
    Pages,
    /// The power cut leaves some unsynced pages and names, and some of these pages are torn: only some of their
    /// sectors are new.
    Torn,
}

impl Cut {
    /// All kinds of power cuts.
    pub const ALL: [Self; 3] = [Self::Drop, Self::Pages, Self::Torn];

    /// Returns the probabilities with which a cut of this kind leaves unsynced data; partly random.
    pub(super) fn draw(self, rng: &mut SmallRng) -> Keep {
        let pages = [0.1, 0.5, 0.9, 1.0].into_iter().nth(rng.random_range(0..4)).unwrap_or(0.5);
        match self {
            Self::Drop => Keep::NOTHING,
            Self::Pages => Keep { pages, torn: 0.0, names: true },
            Self::Torn => Keep { pages, torn: 0.3, names: true },
        }
    }
}

/// Probabilities with which a power cut leaves unsynced data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keep {
    /// Probability that the power cut leaves an unsynced page.
    pub pages: f64,
    /// Probability that a page that the power cut leaves is torn.
    pub torn: f64,
    /// `true` if the power cut leaves a random number of the first unsynced names, `false` if it leaves none.
    pub names: bool,
}

impl Keep {
    pub const NOTHING: Self = Self { pages: 0.0, torn: 0.0, names: false };

    pub fn nothing(&self) -> Option<()> {
        (self.pages == 0.0).then_some(())
    }
}

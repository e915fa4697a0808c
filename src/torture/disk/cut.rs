//! Kinds of power cuts: which unsynced bytes and names are left on the medium.

use clap::ValueEnum;
use rand::{Rng, rngs::SmallRng};

/// Kind of power cut (`--cut`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cut {
    /// All unsynced bytes and names are lost.
    Drop,
    /// Some unsynced pages are left, and the first of the unsynced names.
    Pages,
    /// Some unsynced pages and names are left, and some of these pages are torn: only some of their sectors are
    /// new.
    Torn,
}

impl Cut {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Drop, Self::Pages, Self::Torn];

    /// Returns random shares of what a cut of this kind leaves.
    pub(super) fn draw(self, rng: &mut SmallRng) -> Keep {
        let pages = [0.1, 0.5, 0.9, 1.0].into_iter().nth(rng.random_range(0..4)).unwrap_or(0.5);
        match self {
            Self::Drop => Keep::NOTHING,
            Self::Pages => Keep { pages, torn: 0.0, names: true },
            Self::Torn => Keep { pages, torn: 0.3, names: true },
        }
    }
}

/// Shares of the unsynced data that are left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keep {
    /// Probability that an unsynced page is left.
    pub pages: f64,
    /// Probability that a page that is left is torn.
    pub torn: f64,
    /// `true` if a random number of the first unsynced names is left, `false` for none.
    pub names: bool,
}

impl Keep {
    pub const NOTHING: Self = Self { pages: 0.0, torn: 0.0, names: false };

    pub fn nothing(&self) -> Option<()> {
        (self.pages == 0.0).then_some(())
    }
}

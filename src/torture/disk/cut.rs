//! What a power cut leaves of the bytes and names that no sync has made durable.

use rand::{Rng, rngs::SmallRng};

/// A kind of power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// All that was not synced is gone.
    Drop,
    /// Any pages of it are there, and the first of the names.
    Pages,
    /// As before, and some pages are new in some of their sectors only.
    Torn,
}

impl Cut {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Drop, Self::Pages, Self::Torn];

    /// Draws how much such a cut leaves.
    pub(super) fn draw(self, rng: &mut SmallRng) -> Keep {
        let pages = [0.1, 0.5, 0.9, 1.0].into_iter().nth(rng.random_range(0..4)).unwrap_or(0.5);
        match self {
            Self::Drop => Keep::NOTHING,
            Self::Pages => Keep { pages, torn: 0.0, names: true },
            Self::Torn => Keep { pages, torn: 0.3, names: true },
        }
    }
}

/// How much of what was not synced is left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keep {
    /// Part of the pages.
    pub pages: f64,
    /// Part of those that is torn.
    pub torn: f64,
    /// Whether some names are left.
    pub names: bool,
}

impl Keep {
    pub const NOTHING: Self = Self { pages: 0.0, torn: 0.0, names: false };

    pub fn nothing(&self) -> Option<()> {
        (self.pages == 0.0).then_some(())
    }
}

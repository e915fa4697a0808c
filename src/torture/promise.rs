//! What may be lost.

use std::{fmt, time::Duration};

/// The acknowledged writes that a strike may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// None.
    Nothing,
    /// The last ones, as far back as this; a timer that runs late included.
    Within(Duration),
    /// The last ones.
    Tail,
    /// Everything, and the store may not open any more.
    Anything,
}

impl Promise {
    /// What the words of [`Loss`](crate::engine::Loss) mean. Words that are not known promise that nothing
    /// is lost, so that a torture fails and someone looks.
    pub fn of(words: &str) -> Self {
        let has = |part: &str| words.contains(part);
        if has("possibly the whole database") {
            Self::Anything
        } else if has("since the start") || has("had not written") || has("buffer") {
            Self::Tail
        } else if has("two seconds") {
            Self::Within(Duration::from_millis(4500))
        } else if has("second") {
            Self::Within(Duration::from_millis(2500))
        } else {
            Self::Nothing
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.pad("nothing"),
            Self::Within(time) => f.pad(&format!("the last {} s", time.as_secs_f64())),
            Self::Tail => f.pad("the last writes"),
            Self::Anything => f.pad("anything"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Fsync, KINDS};

    #[test]
    fn the_words_of_every_store_are_known() {
        for info in KINDS.iter().map(|kind| kind.info) {
            for fsync in Fsync::ALL {
                let loss = info.loss(fsync);
                for words in [loss.kill.words, loss.power_cut.words] {
                    let is_nothing = Promise::of(words) == Promise::Nothing;
                    assert_eq!(is_nothing, words == "nothing", "{}: {words}", info.name);
                }
            }
        }
        let second = Promise::of("about a second");
        assert_eq!(second, Promise::Within(Duration::from_millis(2500)));
        assert_eq!(Promise::of("the last second, and possibly the whole database"), Promise::Anything);
    }
}

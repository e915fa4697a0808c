//! What INFO said at one moment.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// The fields of INFO.
pub(super) struct InfoSnapshot {
    time: Instant,
    fields: BTreeMap<String, String>,
}

impl InfoSnapshot {
    pub fn parse(info: &str) -> Self {
        let fields = info.lines().filter_map(|line| line.trim_end().split_once(':'));
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { time: Instant::now(), fields }
    }

    /// A field as it is.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// A field that is a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.text(name)?.parse().ok()
    }

    /// A part of a field such as `calls=1,usec=2`.
    pub fn part(&self, field: &str, name: &str) -> Option<f64> {
        let parts = self.text(field)?.split(',');
        parts.filter_map(|part| part.split_once('=')).find(|(other, _)| *other == name)?.1.parse().ok()
    }

    /// The names behind a prefix: `get` of `cmdstat_get`.
    pub fn names<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields.keys().filter_map(move |name| name.strip_prefix(prefix))
    }

    /// Keys of all databases; `None` when the server does not count them.
    pub fn keys(&self) -> Option<f64> {
        let databases = self.names("db").filter(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        databases.filter_map(|rest| self.part(&format!("db{rest}"), "keys")).reduce(|one, other| one + other)
    }

    pub fn since(&self, earlier: &Self) -> Duration {
        self.time.saturating_duration_since(earlier.time)
    }
}

//! Parsed reply to one INFO request.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Fields of a server's reply to INFO, with the time at which it was parsed.
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

    /// Returns the text of the INFO field `name`, or `None` if the reply does not have it.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// Returns the value of the INFO field `name`, or `None` if it is missing or no number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.text(name)?.parse().ok()
    }

    /// Returns the number `name` in the list `field`, such as `usec` in `calls=1,usec=2`; `None` if it is missing.
    pub fn part(&self, field: &str, name: &str) -> Option<f64> {
        let parts = self.text(field)?.split(',');
        parts.filter_map(|part| part.split_once('=')).find(|(other, _)| *other == name)?.1.parse().ok()
    }

    /// Returns, of each field name that begins with `prefix`, the rest: `get` for `cmdstat_get` and `cmdstat_`.
    pub fn names<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields.keys().filter_map(move |name| name.strip_prefix(prefix))
    }

    /// Returns the number of keys in all databases; `None` if the server does not report it, as Redis without keys.
    pub fn keys(&self) -> Option<f64> {
        let databases = self.names("db").filter(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        databases.filter_map(|rest| self.part(&format!("db{rest}"), "keys")).reduce(|one, other| one + other)
    }

    pub fn since(&self, earlier: &Self) -> Duration {
        self.time.saturating_duration_since(earlier.time)
    }
}

//! Comparison of the nodes' settings `appendonly` and `appendfsync` with `--fsync`.

use super::{
    description::NAME,
    node::{NoReply, Node, text},
    routing::Cluster,
};
use crate::engine::{Error, Fsync, Result};
use redis::{Value, cmd};

impl Cluster {
    /// Checks that every master syncs as often as `fsync` requires.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::Unsupported`] if a master syncs less often, or does not report its settings.
    pub fn check_policy(&self, fsync: Fsync) -> Result<()> {
        if fsync == Fsync::No {
            return Ok(());
        }
        for node in self.masters() {
            let (log, sync) = (setting(&node, "appendonly")?, setting(&node, "appendfsync")?);
            if let Some(what) = weak_setting(fsync, &log, &sync) {
                let what = format!("keeps no promise of --fsync {fsync}: {} has {what}", node.address());
                return Err(Error::Unsupported { engine: NAME, what });
            }
        }
        Ok(())
    }
}

/// Returns the setting of a node that is too weak for `fsync`, with advice, or `None` if the node syncs often enough.
/// `log` and `sync` are the values of `appendonly` and `appendfsync`.
fn weak_setting(fsync: Fsync, log: &str, sync: &str) -> Option<String> {
    let best = match sync {
        "always" => Fsync::Always,
        "everysec" => Fsync::EverySec,
        _ => Fsync::No,
    };
    let keeps = match fsync {
        Fsync::Always => best == Fsync::Always,
        Fsync::EverySec => best != Fsync::No,
        Fsync::No => true,
    };
    if log != "yes" && fsync != Fsync::No {
        return Some(format!("appendonly {log}; set it to yes on all nodes, or take --fsync no"));
    }
    (!keeps).then(|| format!("appendfsync {sync}; set it on all nodes, or take --fsync {best}"))
}

/// Returns the value of a setting of `node` (CONFIG GET).
fn setting(node: &Node, name: &str) -> Result<String> {
    let unknown = |cause: String| {
        let what =
            format!("cannot tell how nodes sync ({cause}); take --fsync no, which promises nothing about it");
        Error::Unsupported { engine: NAME, what }
    };
    let request = cmd("CONFIG").arg("GET").arg(name).get_packed_command();
    let answers = node.call(&request, 1).map_err(NoReply::message).map_err(unknown)?;
    match answers.first() {
        Some(Value::Array(pair)) => pair.get(1).and_then(text),
        Some(Value::ServerError(error)) => {
            return Err(unknown(format!(
                "{}: {} {}",
                node.address(),
                error.code(),
                error.details().unwrap_or("")
            )));
        }
        _ => None,
    }
    .ok_or_else(|| unknown(format!("{} has no {name}", node.address())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fsync_policy_needs_nodes_that_sync_as_often() {
        for (fsync, log, sync, word) in [
            (Fsync::Always, "yes", "always", None),
            (Fsync::Always, "yes", "everysec", Some("--fsync everysec")),
            (Fsync::Always, "no", "always", Some("--fsync no")),
            (Fsync::EverySec, "yes", "always", None),
            (Fsync::EverySec, "yes", "no", Some("--fsync no")),
            (Fsync::No, "no", "no", None),
        ] {
            let weak_setting = weak_setting(fsync, log, sync);
            let fits = match (&weak_setting, word) {
                (Some(weak_setting), Some(word)) => weak_setting.ends_with(word),
                (weak_setting, word) => weak_setting.is_none() && word.is_none(),
            };
            assert!(fits, "{fsync} {log} {sync}: {weak_setting:?}");
        }
    }
}

//! Flags of `serve` on a cluster that holds the data.

use crate::engine::{ClusterAccess, Info, Location};
use clap::Args;
use std::path::PathBuf;

/// Default of `--prefix`.
const DEFAULT_PREFIX: &str = "kvbench/";

/// Where the cluster is, and what it asks of this server.
#[derive(Args, Debug)]
pub(super) struct Cluster {
    /// Placement drivers of the TiKV cluster that holds the data
    #[arg(
        long,
        value_name = "HOST:PORT,...",
        value_delimiter = ',',
        conflicts_with = "path",
        help_heading = "Store"
    )]
    pd: Vec<String>,
    /// Nodes of the Redis Cluster or Valkey Cluster that holds the data; the others are discovered
    #[arg(
        long,
        value_name = "HOST:PORT,...",
        value_delimiter = ',',
        conflicts_with = "path",
        help_heading = "Store"
    )]
    nodes: Vec<String>,
    /// What all keys begin with in that cluster. Servers with the same prefix have the same data
    #[arg(long, value_name = "TEXT", default_value = DEFAULT_PREFIX, help_heading = "Store")]
    prefix: String,
    /// File that contains the password of that cluster; only its owner may be able to read it. TiKV has no passwords
    #[arg(long, value_name = "FILE", help_heading = "Store")]
    cluster_password_file: Option<PathBuf>,
    /// User of that password [default: the default user]
    #[arg(long, value_name = "NAME", requires = "cluster_password_file", help_heading = "Store")]
    cluster_user: Option<String>,
    /// Connect to that cluster by TLS. Certificates of the authorities that sign the nodes' certificates, in PEM
    #[arg(long, value_name = "FILE", help_heading = "Store")]
    cluster_tls_ca: Option<PathBuf>,
    /// Certificate that is shown to the nodes, in PEM, followed by its chain. TiKV needs one with TLS
    #[arg(
        long,
        value_name = "FILE",
        requires = "cluster_tls_ca",
        requires = "cluster_tls_key",
        help_heading = "Store"
    )]
    cluster_tls_cert: Option<PathBuf>,
    /// Private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "cluster_tls_cert", help_heading = "Store")]
    cluster_tls_key: Option<PathBuf>,
}

impl Cluster {
    /// Returns the location of the data on a cluster, if a flag for a cluster was given, or if the engine needs a
    /// cluster and there is no `--path`; otherwise `None`. For an engine that needs a cluster, `--prefix` alone is no
    /// such flag. An engine on TiKV ignores `--nodes`, and one with hash slots ignores `--pd`.
    pub fn location(&self, info: &Info, has_path: bool) -> Option<Location> {
        let access = self.access();
        let is_given = !self.pd.is_empty() || !self.nodes.is_empty() || access != ClusterAccess::default();
        let is_cluster = info.cluster_flag.is_some();
        let is_given = is_given || !is_cluster && self.prefix != DEFAULT_PREFIX;
        if !(is_given || is_cluster && !has_path) {
            return None;
        }
        // What follows the name of a flag in `cluster_flag` is its description.
        let own = info.cluster_flag.and_then(|flag| flag.split_whitespace().next());
        let lists = [("--pd", &self.pd), ("--nodes", &self.nodes)].into_iter();
        let nodes = lists.filter(|(flag, _)| own.is_none_or(|own| own == *flag)).flat_map(|(_, nodes)| nodes);
        let nodes = nodes.cloned().collect();
        Some(Location::Cluster { nodes, prefix: self.prefix.clone().into_bytes(), access })
    }

    fn access(&self) -> ClusterAccess {
        ClusterAccess {
            user: self.cluster_user.clone(),
            password_file: self.cluster_password_file.clone(),
            ca: self.cluster_tls_ca.clone(),
            identity: self.cluster_tls_cert.clone().zip(self.cluster_tls_key.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{DISTRIBUTED, Kind};
    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        cluster: Cluster,
    }

    #[test]
    fn a_cluster_gets_the_addresses_of_its_own_flag_only() {
        let flags = Flags::parse_from(["serve", "--pd", "a:1,b:1", "--nodes", "c:1,d:1"]);
        let nodes = |info| match flags.cluster.location(info, false) {
            Some(Location::Cluster { nodes, .. }) => nodes.len(),
            other => panic!("{other:?}"),
        };
        for kind in DISTRIBUTED {
            assert_eq!(nodes(kind.info), 2, "{}", kind.info.name);
        }
        assert_eq!(nodes(Kind::DEFAULT.info), 4);
    }

    #[test]
    fn a_prefix_is_one_of_a_cluster_also_if_the_engine_has_none() {
        let location = |flags: &[&str], info| {
            let flags = Flags::parse_from(["serve"].iter().chain(flags));
            flags.cluster.location(info, true)
        };
        let given = &["--prefix", "mine/"][..];
        assert!(matches!(location(given, Kind::DEFAULT.info), Some(Location::Cluster { .. })));
        assert_eq!(location(&[], Kind::DEFAULT.info), None);
        for kind in DISTRIBUTED {
            assert_eq!(location(given, kind.info), None, "{}: --path is refused", kind.info.name);
        }
    }
}

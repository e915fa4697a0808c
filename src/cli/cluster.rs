//! Flags of `serve` on a cluster that holds the data.

use crate::engine::{ClusterAccess, Info, Location};
use clap::Args;
use std::path::PathBuf;

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
    #[arg(long, value_name = "TEXT", default_value = "kvbench/", help_heading = "Store")]
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
    /// Returns the location of the data on a cluster, if a flag for a cluster other than `--prefix` was given, or if
    /// the engine needs a cluster and there is no `--path`; otherwise `None`. An engine on TiKV ignores `--nodes`, and
    /// one with hash slots ignores `--pd`.
    pub fn location(&self, info: &Info, has_path: bool) -> Option<Location> {
        let access = self.access();
        let is_given = !self.pd.is_empty() || !self.nodes.is_empty() || access != ClusterAccess::default();
        let is_cluster = info.cluster_flag.is_some();
        if !(is_given || is_cluster && !has_path) {
            return None;
        }
        let nodes = match (is_cluster, info.capabilities.hash_slots) {
            (false, _) => [&self.pd[..], &self.nodes].concat(),
            (true, false) => self.pd.clone(),
            (true, true) => self.nodes.clone(),
        };
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

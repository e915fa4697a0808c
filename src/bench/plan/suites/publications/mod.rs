//! Complete published experiments, with their own parameters (`kvbench reproduce`).

mod nutsdb_kvstore_bench;
mod tidwall_readme;
mod xdag;

use super::{
    cell_builder::{CellBuilder, Rows},
    redb, smallnest_kvbench, ycsb,
};
use crate::bench::plan::options::{Options, PlanError, Publication, Suite};
use std::path::PathBuf;

/// Returns the path of the file of XDAG blocks that the run must generate, and the number of blocks in it. `None` if
/// the experiment is not XDAG's, or the user gave a file.
pub fn made_blocks(options: &Options) -> Option<(PathBuf, u64)> {
    let wanted = options.suite == Some(Suite::Reproduction(Publication::Xdag)) && options.data.is_none();
    wanted.then(|| (xdag::made_blocks(options), xdag::blocks_needed(options.filled().keys)))
}

/// Returns the heading of the row names and the cells of a published experiment.
pub(super) fn cells(maker: &CellBuilder<'_>, publication: Publication) -> Result<Rows, PlanError> {
    Ok(match publication {
        Publication::Kvbench => tidwall_readme::cells(maker),
        Publication::KvstoreBench => nutsdb_kvstore_bench::cells(maker),
        Publication::Smallnest => smallnest_kvbench::published(maker),
        Publication::Xdag => xdag::cells(maker)?,
        Publication::Redb => redb::cells(maker)?,
        Publication::Ycsb => ycsb::published(maker),
    })
}

//! Versions of C libraries, of which a program can link only one: each is the engine of a program of its own, which
//! `tools/history/build` puts beside this one.

use crate::info;
use kvbench::engine::{Capabilities, Family, Info, Kind, OpenFiles, Writers};
use std::env;

/// Stores of the programs, each with the crate and its version.
const PROGRAMS: &str = include_str!("../programs");

/// Returns the engines of the programs in the directory of this program.
pub fn kinds() -> Vec<Kind> {
    let Ok(this) = env::current_exe() else { return Vec::new() };
    let lines = PROGRAMS.lines().filter(|line| !line.starts_with('#'));
    let kinds = lines.filter_map(|line| {
        let (store, library) = line.split_once(' ')?;
        let program = this.with_file_name(store);
        let info = if store.starts_with("sqlite") { sqlite_info } else { rocksdb_info };
        let kind = || Kind::in_program(Box::leak(Box::new(info(store, library))), program.clone().leak());
        program.is_file().then(kind)
    });
    kinds.collect()
}

/// Returns the description of a version of SQLite.
pub const fn sqlite_info(name: &'static str, library: &'static str) -> Info {
    Info {
        capabilities: C_LIBRARY,
        open_files: OpenFiles { least: 48, most: 272, per_read: 2 },
        ..info(name, library, Family::LoggedBTree)
    }
}

/// Returns the description of a version of RocksDB.
pub const fn rocksdb_info(name: &'static str, library: &'static str) -> Info {
    Info {
        capabilities: C_LIBRARY,
        writers: Writers::Concurrent,
        open_files: OpenFiles { least: 128, most: 1 << 16, per_read: 0 },
        ..info(name, library, Family::Lsm)
    }
}

/// What both libraries can do. Their allocations are not counted.
const C_LIBRARY: Capabilities = Capabilities { ordered: true, ..Capabilities::NONE };

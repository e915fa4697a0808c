//! kvbench with one version of RocksDB as its engine.

use std::process::ExitCode;

fn main() -> ExitCode {
    kvbench::main(history_rocksdb::KINDS)
}

//! kvbench's tests of an engine.

use history_rocksdb::KINDS;
use kvbench::testing::child_program;

kvbench::engine_tests!(KINDS);

#[test]
fn a_kill_loses_what_info_says() {
    for kind in KINDS {
        child_program::kill(env!("CARGO_BIN_EXE_history-rocksdb").as_ref(), kind.info.name, 2);
    }
}

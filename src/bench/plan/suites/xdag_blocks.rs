//! Files of XDAG blocks (pairs) for the suites that measure them: a file of the user, or one that is generated.

use crate::bench::{
    data,
    plan::options::{DataFile, Options, PlanError},
};

/// Numbers of XDAG blocks (pairs) in the published experiment of XDAG's fork of kvbench: on its first machine, and on
/// its last.
const SIZES: [u64; 2] = [154_700, 483_296];
/// Name of the generated file of blocks in `--dir`.
const GENERATED: &str = "xdag-blocks";

/// Returns the file of XDAG blocks and the number of blocks in it: the file of `--data` or, without the flag, the one
/// that `generated` returns.
pub(super) fn data_file(
    options: &Options,
    generated: fn(&Options) -> DataFile,
) -> Result<DataFile, PlanError> {
    let Some(path) = options.data.clone() else { return Ok(generated(options)) };
    match data::pairs(&path) {
        Ok(pairs) => Ok((path, pairs)),
        Err(source) => Err(PlanError::BadData { path, source }),
    }
}

/// Returns the file of XDAG blocks that is generated for the publication. It has the larger number of blocks of the
/// experiment, or that for `--keys`.
pub(super) fn generated_for_publication(options: &Options) -> DataFile {
    let [_, large] = sizes(options.keys);
    (options.directory.join(GENERATED), large)
}

/// Returns the file of XDAG blocks that is generated for `--suite xdag`. It has `--keys` blocks or, without the flag, the
/// larger number of blocks of the experiment.
pub(super) fn generated_for_suite(options: &Options) -> DataFile {
    let [_, large] = SIZES;
    (options.directory.join(GENERATED), options.keys.unwrap_or(large).max(1))
}

/// Returns the two numbers of blocks of the experiment; with `--keys`, that number and another one in the
/// same proportion.
pub(super) fn sizes(keys: Option<u64>) -> [u64; 2] {
    let [small, large] = SIZES;
    keys.map_or(SIZES, |keys| [keys.max(1), keys.max(1) * large / small])
}

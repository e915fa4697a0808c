//! kvbench with one engine more: `own-engine --store tiny`, `own-engine bench --stores tiny,map`.

use std::process::ExitCode;

fn main() -> ExitCode {
    kvbench::main(own_engine::KINDS)
}

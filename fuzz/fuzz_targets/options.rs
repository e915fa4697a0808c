//! No command line makes the program panic: it is refused with a text, or gives options that can be checked,
//! described and planned.
#![no_main]

use clap::Parser;
use kvbench::{bench::run::dry_run, cli::{Cli, Command, Serve}, config::Ports};
use libfuzzer_sys::fuzz_target;

fn serve(options: Serve) {
    let config = options.config();
    let settings = config.settings(Ports { plain: 6380, tls: 0 });
    assert!(!settings.is_empty() && !config.path().is_empty());
    if let Err(error) = config.check() {
        assert!(error.to_string().contains("--"), "no flag is named: {error}");
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = str::from_utf8(data) else { return };
    let words = std::iter::once("kvbench").chain(text.split(['\0', '\n', ' ']));
    match Cli::try_parse_from(words) {
        Err(error) => assert!(!error.render().to_string().is_empty()),
        Ok(Cli { command: None, serve: options }) => serve(options),
        Ok(Cli { command: Some(Command::Serve(options)), .. }) => serve(*options),
        // A plan for a foreign server asks that.
        Ok(Cli { command: Some(Command::Bench(options)), .. }) if !text.contains("target") => {
            if let Err(error) = dry_run::text(&options.options()) {
                assert!(!error.to_string().is_empty());
            }
        }
        Ok(_) => {}
    }
});

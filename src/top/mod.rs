//! `kvbench top`: shows the load of any Redis server, as its INFO reports it.

mod client;
mod look;
mod options;
mod view;

pub use options::{Error, Options};

use client::Client;
use look::InfoSnapshot;
use std::{
    io::{self, IsTerminal, Write},
    thread,
};

/// Escape sequence that clears a terminal and moves the cursor to its first line.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Prints one update after the other; in a terminal, each replaces the previous one.
pub fn run(options: &Options) -> Result<(), Error> {
    let mut client = Client::connect(options)?;
    let mut last = InfoSnapshot::parse(&client.info()?);
    let mut looks = 0;
    while options.count.is_none_or(|count| looks < count) {
        thread::sleep(options.interval);
        let now = InfoSnapshot::parse(&client.info()?);
        show(&view::render(&options.server, &last, &now)).map_err(Error::Output)?;
        last = now;
        looks += 1;
    }
    Ok(())
}

fn show(picture: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        out.write_all(CLEAR.as_bytes())?;
    }
    writeln!(out, "{picture}")?;
    out.flush()
}

//! `kvbench top`: shows the load of any Redis server, as its INFO reports it.

mod client;
mod info_reply;
mod keyboard;
mod options;
mod view;

pub use options::{Error, Options};

use client::Client;
use info_reply::InfoSnapshot;
use keyboard::Keyboard;
use rustix::termios::Winsize;
use std::io::{self, IsTerminal, Write};
use view::Size;

/// Escape sequence that clears a terminal and moves the cursor to its first line.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Width of the output in columns, if it is no terminal.
const WIDTH: usize = 100;

/// Prints updates of a server's load, one after each interval; in a terminal, each replaces the previous one, and the
/// key q ends the program.
///
/// # Errors
///
/// Fails if the server does not reply, refuses the request, or is no Redis server, or if the output cannot be written.
pub fn run(options: &Options) -> Result<(), Error> {
    let mut client = Client::connect(options)?;
    let keyboard = Keyboard::open();
    let mut last = InfoSnapshot::parse(&client.info()?);
    let mut looks = 0;
    while options.count.is_none_or(|count| looks < count) {
        if keyboard.quits_within(options.interval) {
            break;
        }
        let now = InfoSnapshot::parse(&client.info()?);
        show(&view::render(&options.server, &last, &now, size())).map_err(Error::Output)?;
        last = now;
        looks += 1;
    }
    Ok(())
}

/// Returns the size of the terminal; if the output is no terminal, [`WIDTH`] columns.
fn size() -> Size {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok();
    let known =
        |length: fn(&Winsize) -> u16| size.as_ref().map(length).filter(|length| *length > 0).map(usize::from);
    Size { columns: known(|size| size.ws_col).unwrap_or(WIDTH), rows: known(|size| size.ws_row) }
}

fn show(picture: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        out.write_all(CLEAR.as_bytes())?;
    }
    writeln!(out, "{picture}")?;
    out.flush()
}

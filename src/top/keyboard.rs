//! Keys pressed in the terminal.

use nix::sys::signal::{SigSet, Signal};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, read},
    stdio::stdin,
    termios::{LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcsetattr},
};
use std::{
    process, thread,
    time::{Duration, Instant},
};

/// Bytes of keys that end the program: q, Q, Ctrl-C and Ctrl-D.
const QUIT: [u8; 4] = [b'q', b'Q', 3, 4];

/// Terminal in a mode that delivers each key at once and does not show it. The settings are restored on drop, and before
/// SIGINT or SIGTERM ends the program. Until then, Ctrl-C is delivered as a key.
pub(super) struct Keyboard {
    /// Settings of the terminal to restore; `None` if standard input is no terminal.
    before: Option<Termios>,
}

impl Keyboard {
    /// Opens the terminal of standard input, if there is one.
    pub fn open() -> Self {
        let before = tcgetattr(stdin()).ok().filter(|_| isatty(stdin()));
        if let Some(mut settings) = before.clone() {
            restore_at_signals(settings.clone());
            settings.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
            // Best effort: without it, q works before Enter.
            let _ = tcsetattr(stdin(), OptionalActions::Now, &settings);
        }
        Self { before }
    }

    /// Waits for `time` and returns `false`. Returns `true` earlier if a key that ends the program was pressed, or the
    /// terminal has ended.
    pub fn quits_within(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.before.is_none() {
                thread::sleep(left);
                return false;
            }
            let mut input = [PollFd::from_borrowed_fd(stdin(), PollFlags::IN)];
            match poll(&mut input, Timespec::try_from(left).ok().as_ref()) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(_) => return true,
            }
            let mut key = [0];
            match read(stdin(), &mut key) {
                Ok(1) if !QUIT.contains(&key[0]) => {}
                Err(Errno::INTR) => {}
                // The end of the input is that of the terminal.
                _ => return true,
            }
        }
    }
}

/// Lets a thread wait for SIGINT and SIGTERM, which restores `settings` of the terminal and ends the program, with the
/// exit code that a shell reports for the signal. Must be called before the program has other threads.
fn restore_at_signals(settings: Termios) {
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
    // Without the mask, the signals end the program as before.
    if signals.thread_block().is_err() {
        return;
    }
    thread::spawn(move || {
        if let Ok(signal) = signals.wait() {
            let _best_effort = tcsetattr(stdin(), OptionalActions::Now, &settings);
            process::exit(128 + signal as i32);
        }
    });
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        if let Some(settings) = &self.before {
            let _best_effort = tcsetattr(stdin(), OptionalActions::Now, settings);
        }
    }
}

//! SIGHUP, which a terminal sends to its programs when it is closed.

/// Gives SIGHUP the effect of SIGTERM, which the subcommands handle if there is something to sync or to remove. If the
/// process ignores SIGHUP, as under `nohup`, it still does.
pub(super) fn treat_as_sigterm() {
    extern "C" fn send_sigterm(_: libc::c_int) {
        #[expect(unsafe_code, reason = "system calls that no crate in use wraps on every system")]
        // SAFETY: a signal handler may make both calls, and they only send a signal to this process.
        unsafe {
            libc::kill(libc::getpid(), libc::SIGTERM);
        }
    }
    let handler = send_sigterm as *const () as libc::sighandler_t;
    #[expect(unsafe_code, reason = "a system call that no crate in use wraps on every system")]
    // SAFETY: `send_sigterm` has the type of a signal handler, and makes only calls that such a handler may make.
    unsafe {
        if libc::signal(libc::SIGHUP, handler) == libc::SIG_IGN {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
        }
    }
}

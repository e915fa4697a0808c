//! Notification of systemd that the server is ready (`Type=notify`, sd_notify(3)).

use std::{env, os::unix::net::UnixDatagram};

/// Sends READY=1 to the socket that the environment variable NOTIFY_SOCKET names. Errors are only logged: a
/// service manager that receives nothing stops the service itself.
pub fn ready() {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send_state(&path.to_string_lossy(), b"READY=1\n") {
        log::warn!("cannot tell NOTIFY_SOCKET that the server is ready: {error}");
    }
}

fn send_state(path: &str, state: &[u8]) -> std::io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    match path.strip_prefix('@') {
        // Name in the abstract namespace, not a file.
        #[cfg(target_os = "linux")]
        Some(name) => {
            use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr};
            socket.send_to_addr(state, &SocketAddr::from_abstract_name(name)?)?;
        }
        _ => {
            socket.send_to(state, path)?;
        }
    }
    Ok(())
}

//! Telling systemd that the server is ready (`Type=notify`, sd_notify(3)).

use std::{env, os::unix::net::UnixDatagram};

/// Says so to whoever asked by NOTIFY_SOCKET. A service manager that does not hear it stops the service by itself.
pub fn ready() {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = tell(&path.to_string_lossy(), b"READY=1\n") {
        log::warn!("cannot tell NOTIFY_SOCKET that the server is ready: {error}");
    }
}

fn tell(path: &str, state: &[u8]) -> std::io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    match path.strip_prefix('@') {
        // A name that is no file.
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

//! Servers of other programs: `redis-server`, from the search path.

use super::unmeasured_requests::is_ready;
use crate::{bench::result::Target, engine::Fsync};
use std::{
    env, io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// Returns the path of a program in `PATH`, or `None` if it is not in it.
pub(in crate::bench::run) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(program)).find(|path| path.is_file())
}

/// Returns the version that a program reports, such as `Redis server v=7.0.15`; `None` if it cannot be run or reports
/// nothing.
pub(in crate::bench::run) fn version(program: &str) -> Option<String> {
    let output = Command::new(find(program)?).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")).filter(|text| !text.is_empty())
}

/// Starts a server program over files in `directory`, with options as of redis-server, without waiting until it accepts
/// connections. Returns the process and the address.
pub(super) fn start(program: &str, target: &Target, directory: &Path) -> Result<(Child, SocketAddr), String> {
    let path = find(program).ok_or_else(|| format!("there is no {program} in PATH"))?;
    let address = SocketAddr::from((
        Ipv4Addr::LOCALHOST,
        free_port().map_err(|error| format!("a free port: {error}"))?,
    ));
    let child = Command::new(path)
        .args(arguments(target, address.port()))
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    Ok((child, address))
}

/// Returns the command-line options of redis-server for a target. Snapshots are off: the append-only file alone
/// provides the durability that is compared.
fn arguments(target: &Target, port: u16) -> Vec<String> {
    let fsync = target.fsync.unwrap_or(Fsync::Always).as_str();
    let append = if target.persistent { "yes" } else { "no" };
    let words = ["--bind", "127.0.0.1", "--save", "", "--appendonly", append, "--appendfsync", fsync];
    let port = port.to_string();
    ["--port", &port].into_iter().chain(words).map(Into::into).collect()
}

/// Waits until the server process `pid` replies to requests, however long it loads its files. Returns an error if it has
/// ended, or if another process has its port.
pub(super) fn wait(address: SocketAddr, pid: u32, has_ended: impl Fn() -> bool) -> Result<(), String> {
    while !is_ready(address, pid)? {
        if has_ended() {
            return Err("the server ended before it accepted connections".into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Returns a port that is free now. If another process takes it before the server does, the server exits, and
/// the run reports an error.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// A server that is started by a script has another process id. There is no time limit for the process itself.
    #[test]
    fn another_process_than_the_started_one_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.unwrap();
                let mut bytes = [0; 1024];
                while let Ok(length @ 1..) = client.read(&mut bytes) {
                    let is_info = String::from_utf8_lossy(&bytes[..length]).contains("INFO");
                    let reply = if is_info { "$14\r\nprocess_id:7\r\n\r\n" } else { ":0\r\n" };
                    client.write_all(reply.as_bytes()).unwrap();
                }
            }
        });
        assert_eq!(wait(address, 7, || false), Ok(()));
        let refused = wait(address, 8, || false).unwrap_err();
        assert!(refused.contains("process 7, not by the process 8"), "{refused}");
    }
}

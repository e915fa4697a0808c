"""A server whose memory is limited, page cache included, for the programs beside this one."""
import os, pathlib, shlex, socket, subprocess, time


def read(path):
    try:
        return open(path).read()
    except OSError:
        return ""


class Group:
    """A new memory control group (version 1 or 2) below our own, of so many MiB; needs root."""

    def __init__(self, mebibytes):
        for line in open("/proc/self/cgroup"):
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controllers == "memory":
                self.path = pathlib.Path("/sys/fs/cgroup/memory" + path) / f"kvbench-{os.getpid()}"
                limit, self.peak_name = "memory.limit_in_bytes", "memory.max_usage_in_bytes"
            elif controllers == "" and "memory" in read("/sys/fs/cgroup/cgroup.controllers"):
                # Only a group without processes may have limited groups below it.
                self.path = pathlib.Path(f"/sys/fs/cgroup/kvbench-{os.getpid()}")
                limit, self.peak_name = "memory.max", "memory.peak"
            else:
                continue
            try:
                self.path.mkdir()
                (self.path / limit).write_text(str(mebibytes << 20))
                return
            except OSError as error:
                raise SystemExit(f"cannot limit memory: {error}; run as root, with the memory controller enabled")
        raise SystemExit("this machine has no memory control group")

    def enter(self):
        (self.path / "cgroup.procs").write_text("0")

    def peak(self):
        """Most bytes that it had."""
        return int(read(self.path / self.peak_name) or 0)

    def remove(self):
        """When its processes have ended."""
        time.sleep(0.2)
        try:
            self.path.rmdir()
        except OSError:
            pass


def start(command, limited=None, **values):
    """Starts `command`, in which {port} and the `values` are filled in; returns it, its port, and a connection."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = shlex.split(command.format(port=port, **values))
    enter = limited.enter if limited else None
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=enter)
    while True:
        try:
            return process, port, socket.create_connection(("127.0.0.1", port))
        except OSError:
            if process.poll() is not None:
                raise SystemExit(f"the server does not start: {' '.join(words)}")
            time.sleep(0.05)


def stop(process, connection):
    connection.sendall(b"SHUTDOWN\r\n")
    process.wait()
    connection.close()

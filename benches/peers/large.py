#!/usr/bin/env python3
"""Very many keys: how fast they are loaded, their memory, and how long the server takes to end and to start again.

usage: large.py [--keys 50000000] [--size 64]
                'redis=redis-server --port {port} --dir {dir} --save "" --appendonly yes' \\
                'map=kvbench --path {dir}/d --fsync everysec --port {port}' ...

Two clients SET keys of 16 bytes, each once, 1,000 in a pipeline, values of --size bytes. Beside them one client sends
PINGs, one after the other. The two run at the lowest priority, so that what it waits for is the server; the times for
which the machine itself stood still (see pauses.py) are taken off. Printed for each server: SETs a second, the longest
time that a PING took, memory of the process afterwards (VmRSS) for each key and in all, the size of the files, the time
that SHUTDOWN takes, the time from the next start until it answers, the same after a kill (kill -9), and the number of
keys then. Data are in BENCH_DIR, by default /var/tmp.
"""
import argparse, multiprocessing, os, pathlib, re, shutil, signal, socket, tempfile, time
from limited import read, start
from pauses import Pauses, without

ap = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
ap.add_argument("--keys", type=int, default=50_000_000)
ap.add_argument("--size", type=int, default=64, help="bytes of a value")
ap.add_argument("servers", nargs="+")
a = ap.parse_args()
CLIENTS, DEPTH = 2, 1000
root = pathlib.Path(tempfile.mkdtemp(prefix="large-", dir=os.environ.get("BENCH_DIR", "/var/tmp")))


def writer(which, port):
    os.nice(19)
    connection = socket.create_connection(("127.0.0.1", port))
    rest = b"\r\n$%d\r\n%s\r\n" % (a.size, b"v" * a.size)
    for low in range(which * DEPTH, a.keys, CLIENTS * DEPTH):
        numbers = range(low, min(low + DEPTH, a.keys))
        connection.sendall(b"".join([b"*3\r\n$3\r\nSET\r\n$16\r\n%016d%s" % (number, rest) for number in numbers]))
        left = 5 * len(numbers)
        while left > 0:
            reply = connection.recv(left)
            if not reply or b"-" in reply:
                raise SystemExit(f"the server refused a SET: {reply[:200]}")
            left -= len(reply)


def pings(port, done, still, longest):
    connection = socket.create_connection(("127.0.0.1", port))
    times = []
    while not done.is_set():
        before = time.perf_counter()
        connection.sendall(b"PING\r\n")
        connection.recv(64)
        times.append((time.perf_counter() - before, before))
        time.sleep(0.001)
    pauses = still.between(times[0][1], time.perf_counter())
    longest.value = max(without(pauses, begin, begin + wait) for wait, begin in sorted(times)[-1000:])


def ask(connection, request):
    connection.sendall(request)
    return connection.recv(1000)


def opened(command, directory):
    """Starts the server on what is there. Returns it, a connection, and how long it took."""
    begin = time.monotonic()
    process, _, connection = start(command, dir=directory)
    while not ask(connection, b"PING\r\n").startswith(b"+PONG"):
        time.sleep(0.01)
    return process, connection, time.monotonic() - begin


def measure(name, command):
    directory = root / name
    directory.mkdir()
    still = Pauses(directory)
    process, port, connection = start(command, dir=directory)
    done, longest, begin = multiprocessing.Event(), multiprocessing.Value("d", 0, lock=False), time.monotonic()
    watch = multiprocessing.Process(target=pings, args=(port, done, still, longest))
    writers = [multiprocessing.Process(target=writer, args=(which, port)) for which in range(CLIENTS)]
    for ours in writers + [watch]:
        ours.start()
    for one in writers:
        one.join()
    took = time.monotonic() - begin
    done.set()
    watch.join()
    still.stop()
    if any(one.exitcode for one in writers + [watch]):
        raise SystemExit(f"{name}: a client failed")
    # What the load has left to do, such as a rewrite of the log.
    time.sleep(10)
    resident = int(re.search(r"VmRSS:\s+(\d+)", read(f"/proc/{process.pid}/status"))[1]) << 10
    files = sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())
    begin = time.monotonic()
    connection.sendall(b"SHUTDOWN\r\n")
    process.wait()
    ended = time.monotonic() - begin
    process, connection, after_end = opened(command, directory)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process, connection, after_kill = opened(command, directory)
    keys = int(ask(connection, b"DBSIZE\r\n")[1:])
    process.kill()
    process.wait()
    shutil.rmtree(directory)
    print(
        f"{name:>16} {a.keys / took:9.0f} {longest.value * 1e3:8.1f} {resident / a.keys:9.1f} {resident / (1 << 30):7.2f} "
        f"{files / (1 << 30):7.2f} {ended:9.2f} {after_end:7.1f} {after_kill:7.1f} {keys:10}",
        flush=True,
    )


print(f"{a.keys} keys of 16 bytes, values of {a.size} bytes\n")
print(
    f"{'':>16} {'SET/s':>9} {'PING max':>8} {'bytes/key':>9} {'GiB':>7} {'files':>7} {'SHUTDOWN':>9} {'start':>7} {'killed':>7} "
    f"{'keys then':>10}"
)
try:
    for server in a.servers:
        name, command = server.split("=", 1)
        measure(name, command)
finally:
    shutil.rmtree(root, ignore_errors=True)

#!/usr/bin/env python3
"""Servers with an append-only file: CPU of its writes, and the time of a start that reads it again.

usage: log.py [--rounds 5] [--keys 1000000] [--size 64] [--depth 64]
              name='command with {port} and {dir}' ...

The first server named is the base. In each round each server, in random order, starts in an empty directory, gets
--keys SETs of different keys through pipelines of --depth, is killed, and starts again. Printed: microseconds of the
server's CPU for each SET, bytes of its files for each SET, seconds from the second start to the first answer, and for
each the median ratio to the base of the same round. A start is over when the server has all keys (DBSIZE).
"""
import argparse, glob, os, random, shlex, shutil, signal, socket, statistics as st, subprocess, tempfile, time

ap = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
ap.add_argument("--rounds", type=int, default=5)
ap.add_argument("--keys", type=int, default=1_000_000)
ap.add_argument("--size", type=int, default=64, help="bytes of a value")
ap.add_argument("--depth", type=int, default=64, help="SETs that are sent before a reply is awaited")
ap.add_argument("servers", nargs="+")
a = ap.parse_args()
servers = dict(server.split("=", 1) for server in a.servers)
names = list(servers)
root = tempfile.mkdtemp(prefix="log-", dir=os.environ.get("BENCH_DIR", "/var/tmp"))


def start(command, directory):
    """The running server, a connection to it, and the seconds until it answered."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = shlex.split(command.format(port=port, dir=directory))
    before = time.perf_counter()
    process = subprocess.Popen(words, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port))
            connection.sendall(b"DBSIZE\r\n")
            # redis-server takes connections while it loads.
            if (reply := connection.recv(64)).startswith(b":"):
                return process, connection, int(reply[1:]), time.perf_counter() - before
            connection.close()
        except OSError:
            if process.poll() is not None:
                raise SystemExit(f"the server does not start: {' '.join(words)}")
        time.sleep(0.002)


def cpu_seconds(process):
    files = glob.glob(f"/proc/{process.pid}/task/*/schedstat")
    return sum(int(open(file).read().split()[0]) for file in files) / 1e9


def write(connection):
    value = b"v" * a.size
    for low in range(0, a.keys, a.depth):
        numbers = range(low, min(low + a.depth, a.keys))
        connection.sendall(b"".join(
            b"*3\r\n$3\r\nSET\r\n$16\r\nkey:%012d\r\n$%d\r\n%s\r\n" % (n, a.size, value) for n in numbers))
        left = 5 * len(numbers)
        while left:
            piece = connection.recv(left)
            if not piece or b"-" in piece:
                raise SystemExit(f"a SET failed: {piece!r}")
            left -= len(piece)


def measure(name):
    directory = f"{root}/{name}"
    os.mkdir(directory)
    process, connection, _, _ = start(servers[name], directory)
    before = cpu_seconds(process)
    write(connection)
    cpu = (cpu_seconds(process) - before) / a.keys * 1e6
    time.sleep(1.5)  # so that everysec has synced all
    process.send_signal(signal.SIGKILL)
    process.wait()
    files = [os.path.join(place, file) for place, _, files in os.walk(directory) for file in files]
    length = sum(map(os.path.getsize, files)) / a.keys
    process, connection, keys, seconds = start(servers[name], directory)
    process.send_signal(signal.SIGKILL)
    process.wait()
    shutil.rmtree(directory)
    if keys != a.keys:
        raise SystemExit(f"{name}: {keys} keys of {a.keys} after the kill")
    return cpu, length, seconds


try:
    found = {name: [] for name in names}
    for _ in range(a.rounds):
        for name in random.sample(names, len(names)):
            found[name].append(measure(name))
    print(f"{'server':14} {'cpu us/SET':>10} {'bytes/SET':>10} {'start s':>8} {'x cpu':>7} {'x bytes':>8} {'x start':>8}")
    for name in names:
        middle = [st.median(column) for column in zip(*found[name])]
        pairs = zip(found[name], found[names[0]])
        ratios = [st.median(column) for column in zip(*([x / y for x, y in zip(*pair)] for pair in pairs))]
        print(f"{name:14} {middle[0]:10.3f} {middle[1]:10.1f} {middle[2]:8.3f} "
              f"{ratios[0]:7.2f} {ratios[1]:8.2f} {ratios[2]:8.2f}")
finally:
    shutil.rmtree(root, ignore_errors=True)

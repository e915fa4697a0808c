#!/usr/bin/env python3
"""GETs of data that do not fit into memory, beside what the device can do.

usage: cold.py [--keys 3000000] [--size 1000] [--memory 400] [--clients 1,16,64,256] [--pipeline 1] [--seconds 10]
               name='kvbench --store lmdb --path {dir}/d --fsync no --cache-size 64MiB --port {port}' ...

Each server is loaded, stopped, its files are dropped from the page cache, and it is started again in a
control group that allows --memory MiB, page cache included (version 1 or 2; needs root). Then
redis-benchmark GETs keys at random, --pipeline requests of a client at a time. Printed for each number of clients:
GETs a second, median and 99th percentile of latency, device reads and KiB read for each GET (of the whole
device: let nothing else use it), and first, by fio, the random reads of 4 KiB a second that the device does
with as many in flight (O_DIRECT). Data are in BENCH_DIR, by default /var/tmp; it must be on the disk that is
to be measured.
"""
import argparse, csv, glob, json, os, pathlib, shlex, shutil, socket, subprocess, tempfile, time

ap = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
ap.add_argument("--keys", type=int, default=3_000_000)
ap.add_argument("--size", type=int, default=1000, help="bytes of a value")
ap.add_argument("--memory", type=int, default=400, help="MiB for the server, page cache included")
ap.add_argument("--clients", default="1,16,64,256")
ap.add_argument("--pipeline", type=int, default=1, help="requests that a client sends together")
ap.add_argument("--seconds", type=float, default=10, help="of GETs for each number of clients")
ap.add_argument("--no-fio", dest="fio", action="store_false")
ap.add_argument("servers", nargs="+")
a = ap.parse_args()
clients = [int(n) for n in a.clients.split(",")]
for tool in ["redis-benchmark"] + ["fio"] * a.fio:
    if not shutil.which(tool):
        raise SystemExit(f"{tool} is missing; install it" + (" or give --no-fio" if tool == "fio" else ""))
root = pathlib.Path(tempfile.mkdtemp(prefix="cold-", dir=os.environ.get("BENCH_DIR", "/var/tmp")))


def group():
    """A new memory control group below our own, and the file that limits it."""
    for line in open("/proc/self/cgroup"):
        _, controllers, path = line.rstrip("\n").split(":", 2)
        if controllers == "memory":
            made = pathlib.Path("/sys/fs/cgroup/memory" + path) / f"kvbench-cold-{os.getpid()}"
            limit = "memory.limit_in_bytes"
        elif controllers == "" and "memory" in read("/sys/fs/cgroup/cgroup.controllers"):
            # Only a group without processes may have limited groups below it.
            made, limit = pathlib.Path(f"/sys/fs/cgroup/kvbench-cold-{os.getpid()}"), "memory.max"
        else:
            continue
        try:
            made.mkdir()
            (made / limit).write_text(str(a.memory << 20))
            return made
        except OSError as error:
            raise SystemExit(f"cannot limit memory: {error}; run as root, with the memory controller enabled")
    raise SystemExit("this machine has no memory control group")


def read(path):
    try:
        return open(path).read()
    except OSError:
        return ""


def device_reads():
    """Reads and bytes read of the device that the data are on."""
    number = os.stat(root).st_dev
    fields = read(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat").split()
    return (int(fields[0]), int(fields[2]) * 512) if fields else (0, 0)


def start(command, directory, limited=None):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    enter = (lambda: (limited / "cgroup.procs").write_text("0")) if limited else None
    words = shlex.split(command.format(port=port, dir=directory))
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=enter)
    while True:
        try:
            return process, port, socket.create_connection(("127.0.0.1", port))
        except OSError:
            if process.poll() is not None:
                raise SystemExit(f"the server does not start: {' '.join(words)}")
            time.sleep(0.05)


def load(connection):
    value = os.urandom(a.size)
    for low in range(0, a.keys, 1000):
        keys = [b"key:%012d" % n for n in range(low, min(low + 1000, a.keys))]
        parts = (b"$%d\r\n%s\r\n$%d\r\n%s%s\r\n" % (len(k), k, a.size, k, value[len(k) :]) for k in keys)
        connection.sendall(b"*%d\r\n$4\r\nMSET\r\n" % (2 * len(keys) + 1) + b"".join(parts))
        if connection.recv(64) != b"+OK\r\n":
            raise SystemExit("the server refused a load")


def stop(process, connection):
    connection.sendall(b"SHUTDOWN\r\n")
    process.wait()
    connection.close()


def drop(directory):
    os.sync()
    for path in filter(os.path.isfile, glob.glob(f"{directory}/**", recursive=True)):
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(port, count):
    """One line of redis-benchmark's CSV and what the device did meanwhile; `requests` are tried until long enough."""
    requests = 200 * count * a.pipeline
    while True:
        before, begin = device_reads(), time.monotonic()
        words = ["redis-benchmark", "-p", port, "-t", "get", "-c", count, "-n", requests, "-r", a.keys, "-P", a.pipeline, "--csv"]
        out = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True).stdout
        seconds, after = time.monotonic() - begin, device_reads()
        row = next(csv.DictReader(out.splitlines()))
        if seconds >= a.seconds / 2:
            reads, size = (b - a for a, b in zip(before, after))
            return float(row["rps"]), float(row["p50_latency_ms"]), float(row["p99_latency_ms"]), reads / requests, size / requests
        requests = int(requests * min(20, 1.2 * a.seconds / max(seconds, 0.05)))


def fio(depth):
    file, size = root / "fio", a.keys * a.size
    words = ["fio", "--name=cold", f"--filename={file}", f"--size={size}", "--rw=randread", "--bs=4k", "--direct=1"]
    words += ["--ioengine=libaio", f"--iodepth={depth}", f"--runtime={a.seconds}", "--time_based", "--output-format=json"]
    out = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    return out["jobs"][0]["read"]["iops"]


limited = group()
try:
    print(f"{a.keys} values of {a.size} bytes, {a.memory} MiB of memory, read-ahead of the device "
          f"{read('/sys/dev/block/%d:%d/queue/read_ahead_kb' % (os.major(os.stat(root).st_dev), os.minor(os.stat(root).st_dev))).strip()} KiB\n")
    print(f"{'':>12} {'clients':>8} {'GET/s':>9} {'p50 ms':>8} {'p99 ms':>8} {'reads/GET':>10} {'KiB/GET':>9}", flush=True)
    if a.fio:
        for depth in clients:
            print(f"{'fio':>12} {depth:>8} {fio(depth * a.pipeline):>9.0f}", flush=True)
        (root / "fio").unlink()
    for server in a.servers:
        name, command = server.split("=", 1)
        directory = root / name
        directory.mkdir()
        process, _, connection = start(command, directory)
        load(connection)
        stop(process, connection)
        drop(directory)
        process, port, connection = start(command, directory, limited)
        for count in clients:
            rate, p50, p99, reads, size = measure(port, count)
            print(f"{name:>12} {count:>8} {rate:>9.0f} {p50:>8.2f} {p99:>8.2f} {reads:>10.2f} {size / 1024:>9.1f}", flush=True)
        stop(process, connection)
        shutil.rmtree(directory)
finally:
    shutil.rmtree(root, ignore_errors=True)
    time.sleep(0.2)
    try:
        limited.rmdir()
    except OSError:
        pass

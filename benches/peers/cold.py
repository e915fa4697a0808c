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
import argparse, csv, glob, json, os, pathlib, shutil, subprocess, tempfile, time
from limited import Group, read, start, stop

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


def device_reads():
    """Reads and bytes read of the device that the data are on."""
    number = os.stat(root).st_dev
    fields = read(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat").split()
    return (int(fields[0]), int(fields[2]) * 512) if fields else (0, 0)


def load(connection):
    value = os.urandom(a.size)
    for low in range(0, a.keys, 1000):
        keys = [b"key:%012d" % n for n in range(low, min(low + 1000, a.keys))]
        parts = (b"$%d\r\n%s\r\n$%d\r\n%s%s\r\n" % (len(k), k, a.size, k, value[len(k) :]) for k in keys)
        connection.sendall(b"*%d\r\n$4\r\nMSET\r\n" % (2 * len(keys) + 1) + b"".join(parts))
        if connection.recv(64) != b"+OK\r\n":
            raise SystemExit("the server refused a load")


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


limited = Group(a.memory)
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
        process, _, connection = start(command, dir=directory)
        load(connection)
        stop(process, connection)
        drop(directory)
        process, port, connection = start(command, limited, dir=directory)
        for count in clients:
            rate, p50, p99, reads, size = measure(port, count)
            print(f"{name:>12} {count:>8} {rate:>9.0f} {p50:>8.2f} {p99:>8.2f} {reads:>10.2f} {size / 1024:>9.1f}", flush=True)
        stop(process, connection)
        shutil.rmtree(directory)
finally:
    shutil.rmtree(root, ignore_errors=True)
    limited.remove()

#!/usr/bin/env python3
"""How long a server keeps its clients waiting while it has something large to do.

usage: stalls.py grow    'kvbench --path :memory: --port {port}'                [--keys 10000000]
       stalls.py rewrite 'kvbench --path {dir}/d --fsync everysec --port {port}' [--seconds 20]
       stalls.py cold    'kvbench --store lmdb --path {dir}/d --port {port}'     [--keys 1000000]
       stalls.py keys | mget | mset | del | dbsize | flushdb
                         'kvbench --path :memory: --port {port}'                [--keys 5000000]

grow: one client sends GETs one by one while others SET keys that are new, up to --keys; printed is the
longest time that a GET took, and for comparison that of as many GETs while the others only overwrite.
rewrite: the same beside SETs while the append-only file is rewritten again and again (BGREWRITEAOF).
cold: --keys values of 1 KiB are stored, the server is restarted, the page cache dropped (needs root),
then one client GETs 100 keys again and again, first alone, then beside clients that GET all keys at
random; printed are the median and the 99th percentile of its GETs, and of PINGs, which wait for processors and the
network only. Start the server with a --cache-size below the data.

keys, mget, mset, del, dbsize, flushdb: --keys keys are stored, then one client GETs and another SETs, each
one request after the other, while a third sends that one command for all keys (KEYS *, MGET of all of them,
...; DBSIZE and INFO in turns), several times where that makes sense; printed is how long GETs and SETs took.

Server and clients are not pinned. What this machine adds shows in the lines `idle` and `before`: GETs while nothing
else is done. Of the waits the five longest are printed: what the server causes, each of the rounds shows. A virtual
machine can stand still itself. Where that may be seen (as root: a real-time thread on each core that sleeps for a
millisecond again and again), the time for which it woke too late is taken off the waits that it was in, and its sum
is printed.
"""
import argparse, multiprocessing, os, random, shlex, shutil, signal, socket, subprocess, tempfile, threading, time
from pauses import Pauses, without

ap = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
ap.add_argument("what", choices=["grow", "rewrite", "cold", "keys", "mget", "mset", "del", "dbsize", "flushdb"])
ap.add_argument("server", help="command line with {port} and {dir}")
ap.add_argument("--keys", type=int, help="number of keys")
ap.add_argument("--seconds", type=float, default=20)
a = ap.parse_args()
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
directory = tempfile.mkdtemp(dir=os.environ.get("BENCH_DIR", "/var/tmp"))


def start():
    process = subprocess.Popen(shlex.split(a.server.format(port=port, dir=directory)), stdout=subprocess.DEVNULL)
    while True:
        try:
            return process, socket.create_connection(("127.0.0.1", port))
        except OSError:
            if process.poll() is not None:
                raise SystemExit("the server does not start")
            time.sleep(0.05)


def request(*words):
    words = [w.encode() if isinstance(w, str) else w for w in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def call(connection, *words):
    connection.sendall(request(*words))
    reply = connection.recv(65536)
    if not reply or reply.startswith(b"-"):
        raise SystemExit(f"{words[0]}: {reply}")
    return reply


def load(connection, first, last, value):
    for low in range(first, last, 1000):
        numbers = range(low, min(low + 1000, last))
        connection.sendall(b"".join(request("SET", "key:%012d" % n, value) for n in numbers))
        left = 5 * len(numbers)
        while left:
            piece = connection.recv(min(left, 65536))
            if not piece:
                raise SystemExit("the server closed the connection during the load")
            left -= len(piece)


def benchmark(*arguments):
    return subprocess.Popen(["redis-benchmark", "-p", str(port), "-q", *map(str, arguments)], stdout=subprocess.DEVNULL)


def watch(label, until, keys=1, command="GET"):
    """GETs (or SETs, or PINGs) one by one until `until()`; prints how long they took, in milliseconds."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    times, more, opened = [], ["v"] if command == "SET" else [], time.perf_counter()
    while not until():
        before = time.perf_counter()
        call(connection, command, "key:%012d" % random.randrange(keys), *more)
        times.append((time.perf_counter() - before, before))
    times.sort()
    at = lambda part: times[min(len(times) - 1, int(len(times) * part))][0] * 1e3
    still = pauses.between(opened, time.perf_counter())
    waits = sorted((without(still, begin, begin + wait) for wait, begin in times[-1000:]), reverse=True)
    longest = " ".join(f"{wait * 1e3:.1f}" for wait in waits[:5])
    off = f"; the machine stood still for {sum(last - first for first, last in still) * 1e3:.0f} ms" * bool(pauses.watchers)
    print(f"{label:28} {len(times):8} {command}s: median {at(0.5):7.3f}  99% {at(0.99):7.3f}  longest {longest} ms{off}", flush=True)


def seconds(length):
    end = time.monotonic() + length
    return lambda: time.monotonic() > end


def large(words, lines):
    """Sends one large request; returns how long its reply, of so many lines, took."""
    own = socket.create_connection(("127.0.0.1", port))
    before = time.perf_counter()
    sender = threading.Thread(target=own.sendall, args=(words,))
    sender.start()
    while lines > 0:
        piece = own.recv(1 << 20)
        if not piece or piece.startswith(b"-"):
            raise SystemExit(f"the large request failed: {piece[:200]}")
        lines -= piece.count(b"\n")
    sender.join()
    return time.perf_counter() - before




def send_large(what, keys, ready, go, leave, times):
    """The client of the large command. It gives way to those that are watched: what they wait for is the server."""
    names = [b"key:%012d" % n for n in range(keys)]
    words = {
        "keys": lambda: request("KEYS", "*"),
        "mget": lambda: request("MGET", *names),
        "mset": lambda: request("MSET", *(word for name in names for word in (name, b"w"))),
        "del": lambda: request("DEL", *names),
        "dbsize": lambda: request("DBSIZE"),
        "flushdb": lambda: request("FLUSHDB"),
    }[what]()
    lines = {"keys": 2 * keys + 1, "mget": 2 * keys + 1}.get(what, 1)
    os.nice(19)
    ready.set()
    go.wait()
    try:
        for _ in range({"flushdb": 1, "del": 1, "dbsize": 200}.get(what, 3)):
            times.put(large(words, lines))
            if what == "dbsize":
                large(request("INFO"), 20)
    finally:
        times.put(None)
    leave.wait()


def beside(what, keys):
    """One client GETs and one SETs while a third has the server do `what` for all keys."""
    times, ready, go, leave = multiprocessing.Queue(), *(multiprocessing.Event() for _ in range(3))
    # Processes: threads would wait for one another and not for the server. This one is large, so it is not to start
    # or to end while others are watched.
    sender = multiprocessing.Process(target=send_large, args=(what, keys, ready, go, leave, times))
    sender.start()
    ready.wait()
    took = []
    for label in (f"before {what.upper()}", f"beside {what.upper()}"):
        done = multiprocessing.Event()
        others = [
            multiprocessing.Process(target=watch, args=(label, done.is_set, keys, command))
            for command in ("GET", "SET")
        ]
        for other in others:
            other.start()
        time.sleep(1)
        if label.startswith("beside"):
            go.set()
            took = list(iter(times.get, None))
        time.sleep(2)
        done.set()
        for other in others:
            other.join()
    leave.set()
    sender.join()
    if sender.exitcode:
        raise SystemExit(f"the client of {what.upper()} failed")
    print(f"{what.upper()} of {keys} keys took {min(took):.3f} to {max(took):.3f} s", flush=True)


pauses = Pauses(directory)
process, connection = start()
others = []
try:
    call(connection, "SET", "key:%012d" % 0, "v")
    watch("idle", seconds(2))
    if a.what == "grow":
        keys = a.keys or 10_000_000
        # redis-benchmark's keys are random, so that the last new ones come slowly.
        count = lambda: int(call(connection, "DBSIZE")[1:])
        others = [benchmark("-t", "set", "-n", keys * 4, "-r", keys * 2, "-c", 16, "-P", 64)]
        state = {"count": 0}
        def poll():
            while state["count"] < keys and others[0].poll() is None:
                state["count"] = count()
                time.sleep(0.2)
        poller = threading.Thread(target=poll)
        poller.start()
        watch(f"growing to {keys} keys", lambda: not poller.is_alive())
        others[0].kill()
        others = [benchmark("-t", "set", "-n", 10**9, "-r", 1000, "-c", 16, "-P", 64)]
        time.sleep(1)
        watch("overwriting", seconds(5))
    elif a.what == "rewrite":
        load(connection, 0, 500_000, b"v" * 100)
        others = [benchmark("-t", "set", "-n", 10**9, "-r", 1_000_000, "-c", 50, "-P", 16, "-d", 100)]
        time.sleep(1)
        watch("beside SETs", seconds(a.seconds / 2))
        ended = seconds(a.seconds)
        rewrites = [0]
        def rewrite():
            own = socket.create_connection(("127.0.0.1", port))
            while not ended():
                own.sendall(request("BGREWRITEAOF"))
                rewrites[0] += own.recv(1000).startswith(b"+")
                time.sleep(0.05)
        thread = threading.Thread(target=rewrite)
        thread.start()
        watch("beside SETs and rewrites", ended)
        thread.join()
        print(f"{rewrites[0]} rewrites")
    elif a.what != "cold":
        keys = a.keys or 5_000_000
        load(connection, 0, keys, b"v")
        beside(a.what, keys)
    else:
        keys = a.keys or 1_000_000
        load(connection, 0, keys, b"v" * 1024)
        process.send_signal(signal.SIGTERM)
        process.wait()
        subprocess.run(["sync"], check=True)
        with open("/proc/sys/vm/drop_caches", "w") as drop:
            drop.write("1")
        process, connection = start()
        watch("hot keys (warming up)", seconds(1), 100)
        watch("hot keys alone", seconds(5), 100)
        watch("no key alone", seconds(3), 100, "PING")
        reads = multiprocessing.Value("q", 0)
        def read():
            own = socket.create_connection(("127.0.0.1", port))
            while True:
                call(own, "GET", "key:%012d" % random.randrange(keys))
                with reads.get_lock():
                    reads.value += 1
        # Processes: threads would wait for one another and not for the server.
        others = [multiprocessing.Process(target=read, daemon=True) for _ in range(4)]
        for other in others:
            other.start()
        time.sleep(1)
        watch("hot keys beside cold ones", seconds(8), 100)
        watch("no key beside cold ones", seconds(8), 100, "PING")
        print(f"{reads.value} reads of any key, {keys} keys in all")
finally:
    for other in others:
        other.kill()
    pauses.stop()
    process.kill()
    process.wait()
    shutil.rmtree(directory, ignore_errors=True)

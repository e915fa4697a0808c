#!/usr/bin/env python3
"""Loads more than fits into memory, while another client reads.

usage: load.py [--gib 20] [--size 1000] [--memory 2048] [--seconds 0] [--chart FILE.svg] [--bare PROGRAM]
               name='kvbench --store redb --path {dir}/d --fsync no --cache-size 1GiB --port {port}' ...

Each server starts empty in a control group that allows --memory MiB, page cache included (version 1 or 2; needs
root). Four clients SET keys in random order, each once, 50 in a pipeline, values of --size random bytes, until --gib
GiB are sent or --seconds have passed (0: no limit). Beside them one client GETs keys that are there, one after the
other. Printed for each server: bytes sent, SETs a second over all, over the first and over the last tenth of the time, the
longest time that a pipeline took, percentiles of the GETs, memory of the process (VmHWM, which counts pages of a memory
map) and of its group, the size of the files, bytes that the device wrote for each byte sent (of the whole device: let
nothing else use it), and the engine's own figures in INFO that speak of stalls. With --chart, the rates over time are
drawn. With --bare (the program that `cargo bench --bench bare --no-run` names), the same keys are then loaded without a
server, by one thread, 200 pairs in a commit that is not synced: once by a loop over the bare crate, if there is one for the
engine that `--store` names, and once through kvbench's trait. Data are in BENCH_DIR, by default /var/tmp.
"""
import argparse, math, multiprocessing, os, pathlib, random, re, shutil, socket, subprocess, tempfile, time
from limited import Group, read, start, stop

ap = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
ap.add_argument("--gib", type=float, default=20)
ap.add_argument("--size", type=int, default=1000, help="bytes of a value")
ap.add_argument("--memory", type=int, default=2048, help="MiB for the server, page cache included")
ap.add_argument("--seconds", type=float, default=0, help="end a load after so long")
ap.add_argument("--chart", help="file for a chart (SVG)")
ap.add_argument("--bare", help="program of the bench `bare`")
ap.add_argument("servers", nargs="+")
a = ap.parse_args()
CLIENTS, DEPTH, BUCKETS = 4, 50, 1 << 16
KEYS = math.ceil(a.gib * (1 << 30) / a.size)
# A multiplier without a common factor with the number of keys visits each of them once, in no order.
STEP = next(n for n in range(int(KEYS * 0.6180339887), 2 * KEYS) if math.gcd(n, KEYS) == 1)
root = pathlib.Path(tempfile.mkdtemp(prefix="load-", dir=os.environ.get("BENCH_DIR", "/var/tmp")))


def key(number):
    return b"key:%012d" % (number * STEP % KEYS)


def writer(which, port, begin, acknowledged, seconds, longest):
    """Every so many-th key; `acknowledged` is the number of its SETs in each second."""
    connection = socket.create_connection(("127.0.0.1", port))
    noise = os.urandom(1 << 20)
    end = begin + a.seconds if a.seconds else math.inf
    for low in range(which * DEPTH, KEYS, CLIENTS * DEPTH):
        numbers = range(low, min(low + DEPTH, KEYS))
        parts = []
        for number in numbers:
            at = random.randrange(len(noise) - a.size)
            parts.append(b"*3\r\n$3\r\nSET\r\n$16\r\n%s\r\n$%d\r\n%s\r\n" % (key(number), a.size, noise[at : at + a.size]))
        before = time.monotonic()
        connection.sendall(b"".join(parts))
        left = 5 * len(parts)
        while left > 0:
            reply = connection.recv(left)
            if not reply or b"-" in reply:
                raise SystemExit(f"the server refused a SET: {reply[:200]}")
            left -= len(reply)
        now = time.monotonic()
        longest.value = max(longest.value, now - before)
        seconds[which * BUCKETS + min(int(now - begin), BUCKETS - 1)] += len(parts)
        acknowledged[which] += len(parts)
        if now > end:
            return


def reader(port, acknowledged, done, results):
    times = []
    try:
        connection = socket.create_connection(("127.0.0.1", port))
        while not done.is_set():
            which = random.randrange(CLIENTS)
            sent = acknowledged[which]
            if sent == 0:
                time.sleep(0.01)
                continue
            pipeline, within = divmod(random.randrange(sent), DEPTH)
            number = (pipeline * CLIENTS + which) * DEPTH + within
            before = time.monotonic()
            connection.sendall(b"*2\r\n$3\r\nGET\r\n$16\r\n%s\r\n" % key(number))
            left = len(b"$%d\r\n" % a.size) + a.size + 2
            while left > 0:
                reply = connection.recv(left)
                if not reply or left > a.size and reply[:1] != b"$" or reply.startswith(b"$-1"):
                    raise SystemExit(f"GET of an acknowledged key: {reply[:200]}")
                left -= len(reply)
            times.append(time.monotonic() - before)
    finally:
        # `load` waits for them.
        results.put(sorted(times))


def written():
    number = os.stat(root).st_dev
    fields = read(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat").split()
    return int(fields[6]) * 512 if fields else 0


def info(connection):
    connection.sendall(b"INFO\r\n")
    text = b""
    while not re.match(rb"\$(\d+)\r\n", text) or len(text) < int(re.match(rb"\$(\d+)", text)[1]):
        piece = connection.recv(65536)
        if not piece:
            raise SystemExit("the server closed the connection before its reply to INFO")
        text += piece
    return dict(line.split(":", 1) for line in text.decode().split("\r\n") if ":" in line)


def size(directory):
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())


def load(name, command, limited):
    directory = root / name
    directory.mkdir()
    process, port, connection = start(command, limited, dir=directory)
    acknowledged = multiprocessing.Array("q", CLIENTS, lock=False)
    seconds = multiprocessing.Array("q", CLIENTS * BUCKETS, lock=False)
    longest = [multiprocessing.Value("d", 0, lock=False) for _ in range(CLIENTS)]
    done, results, before, begin = multiprocessing.Event(), multiprocessing.Queue(), written(), time.monotonic()
    writers = [
        multiprocessing.Process(target=writer, args=(which, port, begin, acknowledged, seconds, longest[which]))
        for which in range(CLIENTS)
    ]
    watch = multiprocessing.Process(target=reader, args=(port, acknowledged, done, results))
    for process_of_ours in writers + [watch]:
        process_of_ours.start()
    for one in writers:
        one.join()
    took, sent = time.monotonic() - begin, sum(acknowledged)
    done.set()
    times = results.get()
    watch.join()
    if any(one.exitcode for one in writers) or watch.exitcode:
        process.kill()
        process.wait()
        raise SystemExit(f"{name}: a client failed")
    figures = {name: value for name, value in info(connection).items() if "stall" in name or "stop" in name}
    peak = int(re.search(r"VmHWM:\s+(\d+)", read(f"/proc/{process.pid}/status"))[1]) >> 10
    os.sync()
    grown, files = written() - before, size(directory)
    stop(process, connection)
    shutil.rmtree(directory)
    rates = [sum(seconds[which * BUCKETS + second] for which in range(CLIENTS)) for second in range(max(int(took), 1))]
    tenth = max(1, len(rates) // 10)
    at = lambda part: times[min(len(times) - 1, int(len(times) * part))] * 1e3 if times else math.nan
    print(
        f"{name:>16} {sent * a.size / (1 << 30):6.2f} {sent / took:9.0f} {sum(rates[:tenth]) / tenth:9.0f} "
        f"{sum(rates[-tenth:]) / tenth:9.0f} {max(one.value for one in longest) * 1e3:9.0f} {at(0.5):8.2f} {at(0.99):8.2f} "
        f"{at(1):8.0f} {peak:7} {limited.peak() >> 20:7} {files / (1 << 30):6.2f} {grown / max(1, sent * a.size):6.2f} "
        + " ".join(f"{name}={value}" for name, value in figures.items() if value != "0"),
        flush=True,
    )
    return rates


def load_bare(mode, command, limited):
    """Loads the engine of a server's command without the server."""
    store, cache = re.search(r"--store (\S+)", command), re.search(r"--cache-size (\d+)MiB", command)
    name = store[1] if store else "map"
    numbers = [KEYS, STEP, a.size, int(cache[1]) << 20 if cache else 256 << 20, int(a.seconds) or 1 << 30]
    directory = root / f"{name}-{mode}"
    directory.mkdir()
    words = [a.bare, "--load", mode, name, directory, *map(str, numbers)]
    before, begin = written(), time.monotonic()
    done = subprocess.run(words, preexec_fn=limited.enter, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    took = time.monotonic() - begin
    os.sync()
    grown, files = written() - before, size(directory)
    shutil.rmtree(directory)
    if done.returncode:
        print(f"{name:>16} {mode}: {done.stderr.strip().splitlines()[-1:]}", flush=True)
        return
    rates = [int(line) for line in done.stdout.split()]
    sent, tenth, none = sum(rates), max(1, len(rates) // 10), "-"
    print(
        f"{name + ' ' + mode:>16} {sent * a.size / (1 << 30):6.2f} {sent / took:9.0f} {sum(rates[:tenth]) / tenth:9.0f} "
        f"{sum(rates[-tenth:]) / tenth:9.0f} {none:>9} {none:>8} {none:>8} {none:>8} {none:>7} {limited.peak() >> 20:7} "
        f"{files / (1 << 30):6.2f} {grown / max(1, sent * a.size):6.2f}",
        flush=True,
    )


def within_limit(load, *arguments):
    limited = Group(a.memory)
    try:
        return load(*arguments, limited)
    finally:
        limited.remove()


def chart(series):
    """Rates of each second as lines, smoothed over a fiftieth of the time."""
    width, height, left, colours = 900, 360, 70, ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000", "#999"]
    most, longest = max(max(rates) for _, rates in series) or 1, max(len(rates) for _, rates in series)
    lines = []
    for number, (name, rates) in enumerate(series):
        step = max(1, len(rates) // 50)
        means = [sum(rates[at : at + step]) / len(rates[at : at + step]) for at in range(0, len(rates), step)]
        points = " ".join(
            f"{left + width * (at + 0.5) * step / longest:.1f},{20 + height * (1 - mean / most):.1f}" for at, mean in enumerate(means)
        )
        colour = colours[number % len(colours)]
        # Those for which no colour is left are dashed.
        dashed, mark = (' stroke-dasharray="6 3"', " - -") if number >= len(colours) else ("", "")
        lines.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2"{dashed} points="{points}"/>')
        lines.append(f'<text x="{left + width + 10}" y="{40 + 20 * number}" fill="{colour}">{name}{mark}</text>')
    labels = "".join(
        f'<text x="{left - 8}" y="{24 + height * (1 - part)}" text-anchor="end">{most * part:,.0f}</text>' for part in (0, 0.5, 1)
    ) + "".join(
        f'<text x="{left + width * part}" y="{height + 45}" text-anchor="middle">{longest * part:.0f} s</text>' for part in (0, 0.5, 1)
    )
    with open(a.chart, "w") as file:
        file.write(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 160} {height + 60}" font-family="sans-serif" '
            f'font-size="14"><rect width="100%" height="100%" fill="#fff"/><path d="M{left} 20v{height}h{width}" fill="none" '
            f'stroke="#888"/>{labels}{"".join(lines)}<text x="{left}" y="14">SETs a second</text></svg>\n'
        )


print(f"{KEYS} values of {a.size} bytes, {a.memory} MiB of memory\n")
print(
    f"{'':>16} {'GiB':>6} {'SET/s':>9} {'first 10%':>9} {'last 10%':>9} {'worst ms':>9} {'GET p50':>8} {'GET 99%':>8} "
    f"{'GET max':>8} {'process':>7} {'group':>7} {'files':>6} {'w.amp':>6}",
    flush=True,
)
series = []
try:
    for server in a.servers:
        name, command = server.split("=", 1)
        series.append((name, within_limit(load, name, command)))
        for mode in ("bare", "trait") if a.bare else ():
            within_limit(load_bare, mode, command)
finally:
    shutil.rmtree(root, ignore_errors=True)
if a.chart:
    chart(series)

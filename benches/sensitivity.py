#!/usr/bin/env python3
"""What a setting of a store changes, in pairs of measurements that differ in this setting only.

    cargo build --release
    benches/sensitivity.py "${CARGO_TARGET_DIR:-target}/release/kvbench" [rocksdb read-ahead ...]

Both measurements of a pair have the same seed, follow each other, and change their order from pair to pair. Data are
larger than --memory MiB, which a control group allows (needs root): in process `bench --memory-limit`, and for settings
that only a server has, the server. Prints a table of throughput with the setting relative to that without, with the 95%
interval of the geometric mean (Student). Takes about 20 seconds a pair of most settings; there are nine.
"""
import argparse, json, math, pathlib, statistics, subprocess, sys, tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent / "peers"))
from limited import Group, start, stop

# Student's t at 97.5%, by degrees of freedom.
STUDENT = [0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228]
MIXED, READS = ["--mix", "get=0.5,update=0.5"], ["--mix", "get=1"]
LARGER = (["--cache-size", "16MiB"], ["--cache-size", "32MiB"])
LZ4 = (["--compression", "none"], ["--compression", "lz4"])

# Store, what differs, workload, flags without and with it, and whether they are flags of a server.
SETTINGS = [
    ("rocksdb", "budget 32 MiB, not 16: memtable 8 MiB, not 4; first level 32 MiB, not 16", MIXED, LARGER, False),
    ("fjall", "budget 32 MiB, not 16: memtable 4 MiB, not 2", MIXED, LARGER, False),
    ("redb", "budget 32 MiB, not 16", MIXED, LARGER, False),
    ("sqlite", "budget 32 MiB, not 16", MIXED, LARGER, False),
    ("rocksdb", "lz4, values compress to half", [*MIXED, "--value-entropy", "0.5"], LZ4, False),
    ("fjall", "lz4, values compress to half", [*MIXED, "--value-entropy", "0.5"], LZ4, False),
    ("rocksdb", "direct reads: no page cache", READS, (["--direct-reads", "no"], ["--direct-reads", "yes"]), True),
    ("lmdb", "read-ahead of the map", READS, (["--read-ahead", "off"], ["--read-ahead", "on"]), True),
    ("mdbx", "read-ahead of the map", READS, (["--read-ahead", "off"], ["--read-ahead", "on"]), True),
]


class NotMeasured(Exception):
    """Why a cell has no result, such as a kill at the memory limit."""


def bench(options, directory, seed, flags):
    """Operations per second of one measurement."""
    result = directory / "result.json"
    command = [options.kvbench, "bench", "--keys", str(options.keys), "--key-bytes", "24", "--value-bytes", "1000"]
    command += ["--order", "zipfian", "--threads", "2", "--seconds", str(options.seconds), "--warm-up", "0.5"]
    command += ["--repetitions", "1", "--seed", str(seed), "--quiet-wait", "0", "--foreign", "100", "--force"]
    command += ["--dir", directory / "tmp", "--output", result, *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    run = json.loads(result.read_text())
    real = {cell["id"] for cell in run["cells"] if not cell["reference"]}
    [outcome] = [sample["outcome"] for sample in run["samples"] if sample["cell"] in real]
    if "measured" not in outcome:
        raise NotMeasured(next(iter(outcome.values())))
    return outcome["measured"]["throughput"]


def measure(options, directory, seed, setting, flags):
    store, _, workload, _, is_of_server = setting
    if not is_of_server:
        cache = [] if "--cache-size" in flags else ["--cache-size", "16MiB"]
        limited = ["--stores", store, "--fsync", "no", "--memory-limit", f"{options.memory}MiB", *cache]
        return bench(options, directory, seed, [*limited, *workload, *flags])
    group = Group(options.memory)
    command = "{kvbench} --store {store} --path {path} --fsync no --cache-size 16MiB --port {port} {flags}"
    with tempfile.TemporaryDirectory(dir=directory) as path:
        server, port, connection = start(
            command, group, kvbench=options.kvbench, store=store, path=f"{path}/data", flags=" ".join(flags)
        )
        try:
            return bench(options, directory, seed, ["--target", f"127.0.0.1:{port}", *workload])
        finally:
            stop(server, connection)
            group.remove()


def interval(ratios):
    logs = [math.log(ratio) for ratio in ratios]
    mean, off = statistics.mean(logs), STUDENT[len(logs) - 1] * statistics.stdev(logs) / math.sqrt(len(logs))
    return "{:.2f} ({:.2f} to {:.2f})".format(*map(math.exp, (mean, mean - off, mean + off)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvbench")
    parser.add_argument("words", nargs="*", help="parts of stores or settings that are measured; without any: all")
    parser.add_argument("--pairs", type=int, default=5, choices=range(2, 12))
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--memory", type=int, default=128, help="MiB of memory and page cache")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--dir", default=".", help="a directory on the disk to measure")
    options = parser.parse_args()
    options.kvbench = str(pathlib.Path(options.kvbench).resolve())
    print("| store | setting | workload | throughput with it |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(dir=options.dir) as directory:
        directory = pathlib.Path(directory).resolve()
        for setting in SETTINGS:
            store, what, workload, sides, is_of_server = setting
            if options.words and not any(word in f"{store} {what}" for word in options.words):
                continue
            try:
                ratios = []
                for seed in range(options.pairs):
                    order = (0, 1) if seed % 2 == 0 else (1, 0)
                    found = {side: measure(options, directory, seed + 1, setting, sides[side]) for side in order}
                    ratios.append(found[1] / found[0])
                result = interval(ratios)
            except NotMeasured as error:
                result = f"not measured: {error}"
            access = "over the wire" if is_of_server else "in process"
            print(f"| `{store}` | {what} | {workload[1]}, {access} | {result} |", flush=True)


if __name__ == "__main__":
    main()

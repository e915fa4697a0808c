#!/usr/bin/env python3
"""How much runs of one build differ, and what `kvbench compare` says of each two of them.

    cargo build --release
    benches/between_runs.py "${CARGO_TARGET_DIR:-target}/release/kvbench" 5

Measures so many runs, ten minutes each: reads, writes and durable writes of six stores in turns, five blocks each. Each
two runs are compared; at most one comparison in twenty may say that something changed. The values of each run are added to a table
(--table), from which the variation between runs is estimated, without what the blocks of a run explain: of all stores
together (`machine`), of a store relative to the median of the stores (`store`), and relative to one store (`to map`).
src/bench/compare/significance.rs uses these standard deviations of logarithms. Runs of different processors
are not compared. Exit code 0 when at most one comparison in twenty says that something changed, otherwise 1.
"""

import argparse
import itertools
import json
import math
import statistics
import subprocess
import sys
from pathlib import Path

import table

WORK = {
    "get": ["--mix", "get=1", "--fsync", "no"],
    "update": ["--mix", "update=1", "--fsync", "no"],
    "durable": ["--mix", "update=1", "--fsync", "always", "--threads", "1"],
}
CONDUCT = ["--interleave", "--keys", "50k", "--value-bytes", "200", "--cache-size", "16MiB", "--foreign", "10"]
# Of the table. The values are natural logarithms of the metric, one for each block of the run.
COLUMNS = ["started", "cpu", "commit", "work", "store", "metric", "values"]
# A row of `compare --all` with one of these shows no change.
UNCHANGED = ("cannot tell", "equal within")


def measure(options, run, work):
    """Measures one work. Its result file."""
    result = options.dir / f"{run}-{work}.json"
    command = [options.kvbench, "bench", *WORK[work], *CONDUCT, "--stores", options.stores]
    command += ["--dir", options.dir / "tmp", "--output", result]
    if result.exists():
        command.append("--resume")
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{result}: {done.stderr}")
    return result


def values(measurement):
    """The compared metrics of one block."""
    return {"speed": measurement["throughput"], "p99": measurement["latency"]["p99_us"], "size": measurement.get("disk_bytes")}


def rows_of(path, work):
    """The rows of the table for one result."""
    run = json.loads(path.read_text())
    environment, found = run["environment"], {}
    stores = {cell["id"]: cell["target"]["store"] for cell in run["cells"] if not cell.get("reference")}
    for sample in run["samples"]:
        measured = sample["outcome"].get("measured")
        if sample["cell"] in stores and measured:
            for metric, value in values(measured).items():
                if value:
                    found.setdefault((stores[sample["cell"]], metric), []).append(math.log(value))
    for (store, metric), logs in found.items():
        yield {"started": run["started"], "cpu": environment["cpu"], "commit": environment["commit"], "work": work,
               "store": store, "metric": metric, "values": " ".join(f"{log:.5f}" for log in logs)}


def changes(options, first, second):
    """The rows of a comparison that show a change."""
    done = subprocess.run([options.kvbench, "compare", first, second, "--all"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    metrics = ("speed", "p99", "size")
    rows = [line for line in done.stdout.splitlines() if any(f" {metric} " in line for metric in metrics)]
    return [row for row in rows if not any(words in row for words in UNCHANGED)]


def variation(runs, series):
    """Standard deviation between runs of the mean of a series of blocks, without that within runs; mean over all."""
    variances = []
    for cell in zip(*(series(run) for run in runs)):
        within = statistics.mean(statistics.variance(values) / len(values) for values in cell)
        variances.append(statistics.variance([statistics.mean(values) for values in cell]) - within)
    return math.sqrt(max(0, statistics.mean(variances)))


def minus(one, other):
    """The differences of two series by block."""
    return [a - b for a, b in zip(one, other)]


def estimate(rows):
    """Prints the variation between the runs of each processor that has several."""
    for cpu, metric, work in itertools.product(sorted({row["cpu"] for row in rows}), ("speed", "p99", "size"), WORK):
        by_run = {}
        for row in rows:
            if (row["cpu"], row["metric"], row["work"]) == (cpu, metric, work):
                by_run.setdefault(row["started"], {})[row["store"]] = [float(value) for value in row["values"].split()]
        runs = list(by_run.values())
        stores = sorted(set.intersection(*map(set, runs))) if runs else []
        if len(runs) < 3 or len(stores) < 3:
            continue
        middle = lambda run: [statistics.median(block) for block in zip(*(run[store] for store in stores))]
        anchor = "map" if "map" in stores else stores[0]
        machine = variation(runs, lambda run: [middle(run)])
        store = variation(runs, lambda run: [minus(run[one], middle(run)) for one in stores])
        to_one = variation(runs, lambda run: [minus(run[one], run[anchor]) for one in stores if one != anchor])
        days = len({started[:10] for started in by_run})
        print(f"{cpu}, {len(runs)} runs on {days} days, {work}, {metric}: machine {machine:.3f}, store {store:.3f}, "
              f"to {anchor} {to_one:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvbench", help="the program")
    parser.add_argument("runs", type=int, help="number of runs in --dir, with those that are there")
    parser.add_argument("--stores", default="map,btree,rocksdb,lmdb,redb,sqlite")
    parser.add_argument("--dir", type=Path, default=Path("between-runs"), help="results; on the disk to measure")
    parser.add_argument("--table", type=Path, help="values of the runs so far [DIR/runs.csv]")
    parser.add_argument("--after", default="", metavar="TIME", help="estimate from the runs of the table that started later")
    options = parser.parse_args()
    options.kvbench, options.dir = str(Path(options.kvbench).resolve()), options.dir.resolve()
    options.dir.mkdir(parents=True, exist_ok=True)
    options.table = options.table or options.dir / "runs.csv"
    for run in range(options.runs):
        for work in WORK:
            rows = list(rows_of(measure(options, run, work), work))
            # A run that was measured before is there.
            if rows and not any((row["started"], row["work"]) == (rows[0]["started"], work) for row in table.read(options.table)):
                table.add(options.table, COLUMNS, rows)
            print(f"run {run + 1}/{options.runs}: {work}", flush=True)
    comparisons, changed = 0, 0
    for (first, second), work in itertools.product(itertools.combinations(range(options.runs), 2), WORK):
        results = [options.dir / f"{run}-{work}.json" for run in (first, second)]
        if len({json.loads(result.read_text())["environment"]["cpu"] for result in results}) > 1:
            continue
        rows = changes(options, *results)
        comparisons, changed = comparisons + 1, changed + bool(rows)
        for row in rows:
            print(f"{first} and {second}: {row}")
    print(f"{changed} of {comparisons} comparisons say that something changed")
    estimate([row for row in table.read(options.table) if row["started"] > options.after])
    sys.exit(0 if changed * 20 <= comparisons else 1)


if __name__ == "__main__":
    main()

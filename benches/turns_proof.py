#!/usr/bin/env python3
"""Whether stores that take turns keep the speeds that they have alone.

    cargo build --release --features fault-injection
    benches/turns_proof.py "${CARGO_TARGET_DIR:-target}/release/kvbench" cache stalls

cache: nine stores read in turns. Each read of map also reads from 8 MiB of memory, and each read of btree from 64 MiB
(KVBENCH_READS_MEMORY). A cache of the processor holds the first, and loses it while the others run. At each turn, both run
two more slices directly after the first one (KVBENCH_MORE_SLICES), as a store does that is alone. The ratio of the two
stores in the first slices must be equal within 3% to that in the others: as for a verdict of equality, its 90% interval lies
within that margin (two one-sided tests at 5%). Neighbours in time are compared, so that a machine whose speed changes does
not hide the effect.

stalls: rocksdb and fjall write in turns, and as many operations alone. Both delay writes while they compact; time goes on
while a store is stopped. For each, the rate, with the time of the deferred work after it, must be the same in turns
and alone: the 95% interval of the ratio contains 1, and its ends differ by at most 20%, so that a loss of all stalls would
show.

Takes about two hours on an idle machine, most of them for cache (--minutes). A busy one makes the intervals too wide, and
the script then fails. Exit code 0 when both hold.
"""

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

COMMON = ["--threads", "1", "--quiet-wait", "5", "--foreign", "100", "--force"]
READS = ["--mix", "get=1", "--fsync", "no", "--keys", "1000", "--warm-up", "0.2", "--seconds", "24"]
# The two that are compared come first.
READERS = ["map", "btree", "bitcask", "rocksdb", "redb", "sqlite", "fjall", "lmdb", "mdbx"]
WRITES = ["--mix", "update=1", "--fsync", "no", "--keys", "64k", "--value-bytes", "1000", "--cache-size", "16MiB",
          "--warm-up", "0.5"]
TEST = {"KVBENCH_READS_MEMORY": "map=8,btree=64", "KVBENCH_MORE_SLICES": "2"}
MARGIN = 0.03
# Two-sided 95% quantile of Student's distribution by its degrees of freedom: from 1 to 12, for more, and for 100 and more.
STUDENT = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179]
STUDENT_FROM_100 = 1.984
# That for an interval of 90%, for 100 degrees of freedom and more.
STUDENT_90_FROM_100 = 1.660


def bench(options, *flags, environment=()):
    """A run."""
    result = options.dir / "turns-proof.json"
    command = [options.kvbench, "bench", *flags, *COMMON, "--dir", options.dir / "tmp", "--output", result]
    done = subprocess.run(command, env={**os.environ, **dict(environment)}, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(result.read_text())


def logarithms(run, store, value):
    """The logarithm of a value of each block or repetition of a store."""
    cell = next(cell["id"] for cell in run["cells"] if cell["target"]["store"] == store)
    samples = [sample["outcome"]["measured"] for sample in run["samples"] if sample["cell"] == cell]
    return [math.log(value(sample)) for sample in samples]


def rate(sample):
    """Operations a second; in turns with the write-back after the slices."""
    return sample["throughput"]


def rate_with_settling(sample):
    """Operations a second, of the time until all is flushed."""
    return sample["operations"] / (sample["seconds"] + sample["settle_seconds"])


def quantile_95(first, second):
    """The quantile of Student's distribution for an interval of 95%, with the smaller degrees of freedom of two series."""
    freedom = min(len(first), len(second)) - 1
    return STUDENT_FROM_100 if freedom >= 100 else STUDENT[min(freedom, len(STUDENT)) - 1]


def compared(first, second, quantile):
    """The ratio of two series of logarithms, and its interval, whose half is `quantile` standard errors (Welch's)."""
    difference = statistics.mean(first) - statistics.mean(second)
    error = math.hypot(*(statistics.stdev(values) / math.sqrt(len(values)) for values in (first, second)))
    half = quantile * error
    return [math.exp(value) for value in (difference, difference - half, difference + half)]


def after_others(block, store):
    """The logarithms of a store's rates after other stores, relative to its rates in the slices that follow directly; one
    for each turn in a block."""
    for of, turn in itertools.groupby(block["slices"], key=lambda part: part["store"]):
        if of == store:
            first, *more = (math.log(part["operations"] / part["seconds"]) for part in turn)
            yield first - statistics.mean(more)


def cache(options):
    """Whether the two readers keep their ratio."""
    run = bench(options, *READS, "--stores", ",".join(READERS), "--interleave", "--detect", "0.1%", "--budget",
                f"{options.minutes}m", environment=TEST)
    comparison = run["comparisons"][0]
    both = []
    for number, store in enumerate(READERS[:2]):
        turns = [ratio for block in comparison["blocks"] for ratio in after_others(block, number)]
        both.append(turns)
        print(f"cache: {store} after others to alone: {math.exp(statistics.mean(turns)):.3f}, in {len(turns)} turns of "
              f"{comparison['slicing']['slice_seconds']:.2f} s", flush=True)
    if min(map(len, both)) <= 100:
        sys.exit("cache: fewer than 100 turns; raise --minutes")
    ratio, low, high = compared(*both, STUDENT_90_FROM_100)
    print(f"cache: ratio of the two, after others to alone: {ratio:.3f} (90% interval {low:.3f} to {high:.3f})", flush=True)
    return max(-math.log(low), math.log(high)) <= math.log(1 + MARGIN)


def stalls(options):
    """Whether engines that delay writes take the same time for an operation."""
    stores = ["rocksdb", "fjall"]
    run = bench(options, *WRITES, "--stores", ",".join(stores), "--interleave", "--budget", "6m", "--detect", "0.1%")
    operations = run["comparisons"][0]["slicing"]["work"]["operations"]
    flags = [*WRITES, "--stores", ",".join(stores), "--operations", str(operations), "--repetitions", "5"]
    both = [bench(options, *flags), bench(options, *flags)]
    holds = True
    for store in stores:
        alone = [value for one in both for value in logarithms(one, store, rate_with_settling)]
        turns = logarithms(run, store, rate)
        ratio, low, high = compared(turns, alone, quantile_95(turns, alone))
        print(f"stalls: {store}, {operations} operations, in turns to alone: {ratio:.3f} ({low:.3f} to {high:.3f})",
              flush=True)
        holds &= low <= 1 <= high and high <= 1.2 * low
    return holds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvbench", help="the program, built with --features fault-injection")
    parser.add_argument("parts", nargs="+", choices=["cache", "stalls"])
    parser.add_argument("--minutes", type=int, default=90, help="time for cache")
    parser.add_argument("--dir", type=Path, default=Path("."), help="a directory on the disk to measure")
    options = parser.parse_args()
    options.kvbench, options.dir = str(Path(options.kvbench).resolve()), options.dir.resolve()
    checks = {"cache": cache, "stalls": stalls}
    held = [checks[part](options) for part in options.parts]
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()

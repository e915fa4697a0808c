#!/usr/bin/env python3
"""What `kvbench compare` says of real runs: pairs of one build, and pairs of which one has a slower store.

    cargo build --release --features fault-injection
    benches/compare_proof.py "${CARGO_TARGET_DIR:-target}/release/kvbench"

Each run is compared with the one before it, which is of the same build, and with one that has a slower store. Of the
first comparisons at most one in twenty may fail, of the others at least nineteen in twenty must. The runs have many
short repetitions, which is how a loss is found on a machine that is shared with others. Takes about 45 minutes. Exit
code 0 when both hold.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MIX = ["--mix", "get=0.5,update=0.5", "--fsync", "no", "--threads", "1", "--keys", "5000", "--value-bytes", "100"]
CONDUCT = ["--warm-up", "0.02", "--quiet-wait", "0", "--foreign", "100"]


def measure(options, directory, name, slowed=None):
    """One run. Its result."""
    result = directory / f"{name}.json"
    command = [options.kvbench, "bench", *MIX, *CONDUCT, "--stores", options.stores, "--seconds", str(options.seconds)]
    command += ["--repetitions", str(options.repetitions), "--dir", directory / "tmp", "--output", result]
    environment = dict(os.environ)
    environment.pop("KVBENCH_SLOWED", None)
    if slowed:
        environment["KVBENCH_SLOWED"] = slowed
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{name}: {done.stderr}")
    return result


def fails(options, first, second):
    """Whether the comparison says that something got slower, and its first lines."""
    command = [options.kvbench, "compare", first, second, "--fail-above", "5%"]
    done = subprocess.run(command, capture_output=True, text=True)
    # 2 says that the noise is larger than the limit, or, without any output, that a run cannot be read.
    if done.returncode not in (0, 1) and not done.stdout:
        sys.exit(done.stderr)
    return done.returncode == 1, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvbench", help="the program, built with --features fault-injection")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--stores", default="map,btree,lmdb,redb")
    parser.add_argument("--slowed", default="btree=0.15", help="the store that is slowed, and by what part")
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--repetitions", type=int, default=60)
    parser.add_argument("--dir", default=".", help="a directory on the disk to measure")
    options = parser.parse_args()
    options.kvbench = str(Path(options.kvbench).resolve())
    alarms, found = 0, 0
    with tempfile.TemporaryDirectory(dir=options.dir) as directory:
        directory = Path(directory)
        first = measure(options, directory, "first")
        for pair in range(options.pairs):
            slow = measure(options, directory, f"{pair}-slow", options.slowed)
            same = measure(options, directory, f"{pair}-same")
            (alarm, text), (seen, _) = fails(options, first, same), fails(options, first, slow)
            first = same
            alarms, found = alarms + alarm, found + seen
            print(f"{pair + 1}/{options.pairs}: equal {'FAILED' if alarm else 'passed'}, "
                  f"slower {'found' if seen else 'NOT FOUND'}", flush=True)
            if alarm:
                print(text, flush=True)
    print(f"false alarms: {alarms} of {options.pairs}; slower by {options.slowed}: found {found} of {options.pairs}")
    holds = alarms * 20 <= options.pairs and found * 20 >= options.pairs * 19
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()

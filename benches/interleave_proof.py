#!/usr/bin/env python3
"""What `kvbench bench --interleave` says of an engine and itself, and of an engine that is slower by a known part.

    cargo build --release --features fault-injection
    benches/interleave_proof.py target/release/kvbench --stores btree,redb

A build with fault-injection has some engines under a second name (btree-twin, redb-twin). Each comparison is of an
engine and its twin, which is slowed (KVBENCH_SLOWED) in some of the comparisons, in random order. Of the equal twins at
most one in twelve may differ (at a true rate of 5%, the probability of 5 or fewer of 60 is 0.92); of the slowed ones at
least nine in ten must be found, and none called faster or equal. Each result is kept in --dir, and a comparison that
has one is not measured again, so the script can be stopped and started. Exit code 0 when both hold.
"""

import argparse
import json
import os
import random
import subprocess
import sys
from pathlib import Path

CONDUCT = ["--interleave", "--quiet-wait", "0", "--warm-up", "0.2"]


def measure(options, store, slowed, result):
    """One comparison of a store and its twin. Its verdict on the store, and its number of blocks."""
    command = [options.kvbench, "bench", *CONDUCT, "--stores", f"{store},{store}-twin", "--mix", options.mix]
    command += ["--fsync", "no", "--keys", options.keys, "--threads", "1", "--detect", options.detect]
    command += ["--budget", options.budget, "--dir", options.dir / "tmp", "--output", result]
    if result.exists():
        command.append("--resume")
    environment = dict(os.environ)
    environment.pop("KVBENCH_SLOWED", None)
    if slowed:
        environment["KVBENCH_SLOWED"] = f"{store}-twin={options.slowed}"
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{result}: {done.stderr}")
    comparison = json.loads(result.read_text())["comparisons"][0]
    stores = [cell["target"]["store"] for cell in json.loads(result.read_text())["cells"] if not cell.get("reference")]
    if stores != [store, f"{store}-twin"] or len(comparison["verdicts"]) > 1:
        sys.exit(f"{result}: it is not a comparison of two stores")
    verdict = comparison["verdicts"][0]["verdict"] if comparison["verdicts"] else "cannot-tell"
    return verdict, len(comparison["blocks"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvbench", help="the program, built with --features fault-injection")
    parser.add_argument("--stores", default="btree", help="stores that have a twin")
    parser.add_argument("--mix", default="get=1")
    parser.add_argument("--keys", default="100000")
    parser.add_argument("--equal", type=int, default=10, help="comparisons of equal twins for each store")
    parser.add_argument("--slower", type=int, default=10, help="comparisons of a slowed twin for each store")
    parser.add_argument("--slowed", default="0.05", help="the part of its speed that the twin loses")
    parser.add_argument("--detect", default="3%")
    parser.add_argument("--budget", default="10m", help="the longest time of one comparison")
    parser.add_argument("--seed", type=int, default=1, help="of the order of the comparisons")
    parser.add_argument("--dir", type=Path, default=Path("interleave-proof"), help="results; on the disk to measure")
    options = parser.parse_args()
    options.kvbench = str(Path(options.kvbench).resolve())
    options.dir.mkdir(parents=True, exist_ok=True)
    tasks = [(store, slowed, number) for store in options.stores.split(",")
             for slowed, count in ((False, options.equal), (True, options.slower)) for number in range(count)]
    random.Random(options.seed).shuffle(tasks)
    differ, found, wrong = 0, 0, 0
    for number, (store, slowed, own) in enumerate(tasks):
        kind = "slower" if slowed else "equal"
        verdict, blocks = measure(options, store, slowed, options.dir / f"{store}-{kind}-{own}.json")
        if slowed:
            # The verdict is on the store that is not slowed.
            found += verdict in ("faster", "slightly-faster")
            wrong += verdict not in ("faster", "slightly-faster", "cannot-tell")
        else:
            differ += verdict not in ("equal", "cannot-tell")
        print(f"{number + 1}/{len(tasks)}: {store}, twin {kind}: {verdict} after {blocks} blocks", flush=True)
    equal = sum(not slowed for _, slowed, _ in tasks)
    slower = len(tasks) - equal
    print(f"equal twins: {differ} of {equal} differ; slower by {options.slowed}: {found} of {slower} found, {wrong} wrong")
    holds = differ * 12 <= equal and found * 10 >= slower * 9 and wrong == 0
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()

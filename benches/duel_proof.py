#!/usr/bin/env python3
"""What `kvbench duel` says of a build and itself, and of planted losses and gains, beside a seeded load.

    cargo build --release --features fault-injection
    benches/duel_proof.py "${CARGO_TARGET_DIR:-target}/release/kvbench" same      # the build and itself: 60 comparisons, 2 hours
    benches/duel_proof.py "${CARGO_TARGET_DIR:-target}/release/kvbench" planted   # 3% in GETs of map: 20 losses, 5 gains, 5 controls; an hour, at most 5
    benches/duel_proof.py "${CARGO_TARGET_DIR:-target}/release/kvbench" durable   # 15% in durable writes: 8 losses; half an hour, at most 80 minutes

`same` holds if at most one comparison in twelve calls one of the two faster or slower (at a true rate of 5%, the
probability of 5 or fewer of 60 is 0.92). `planted` and `durable` hold if at least nine in ten losses and eight in ten
gains are found, and none is called equal or the opposite. A simulation calls up to 2% of losses of 3% equal, so `planted`
fails by chance alone in a third of all runs. The order of losses, gains and controls is random, and the program knows
nothing of it: both sides are scripts that start one program, in a build with fault-injection, which adds a part to the
time of each call of the engine (KVBENCH_SLOWED; on one side no time). How large the part must be is measured at each
start, without the load.

The load is another process: bursts of CPU time, 20% to 60% of one core, and syncs of a file, from a seed.
Each verdict is added to a table (--table), and a comparison of the same commit that is in it is not measured again. So the
script can be stopped and started, also on another day, and --most ends it after so many comparisons. Exit code 0 when the
experiment holds, 1 when it does not, 2 when comparisons are left.
"""

import argparse
import json
import math
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

import table

GET = ["--mix", "get=1", "--fsync", "no"]
SET = ["--mix", "update=1", "--fsync", "no"]
SYNCED_SET = ["--mix", "update=1", "--fsync", "always"]

# Of the table. The interval is that of the verdict, of the new side's rate by the old side's.
COLUMNS = ["experiment", "name", "store", "work", "planted", "verdict", "ratio", "low", "high", "blocks", "seconds", "cpu",
           "commit", "started"]


def load(seed, directory):
    """Uses 20% to 60% of a core in bursts, and syncs a file now and then, until the process is ended."""
    chance = random.Random(seed)
    path = directory / "load"
    while True:
        period, part = chance.uniform(0.2, 2), chance.uniform(0.2, 0.6)
        begin = time.monotonic()
        while time.monotonic() < begin + period * part:
            pass
        if chance.random() < 0.5:
            with path.open("wb") as file:
                file.write(b"x" * chance.randrange(1, 1 << 20))
                os.fsync(file.fileno())
        time.sleep(max(0, begin + period - time.monotonic()))


def side(options, name, store, part):
    """A script that starts the program with a part added to the time of each call of the store's engine."""
    path = options.dir / f"side-{name}"
    path.write_text(f'#!/bin/sh\nKVBENCH_SLOWED={store}={part:.6f} exec "{options.kvbench}" "$@"\n')
    path.chmod(0o755)
    return path


def rate_alone(options, store, work, part, seed):
    """Operations per second of a store alone."""
    result = options.dir / "alone.json"
    command = [options.kvbench, "bench", "--stores", store, *work, "--keys", options.keys, "--threads", "1"]
    command += ["--seconds", "1", "--repetitions", "1", "--warm-up", "0.2", "--seed", str(seed), "--force"]
    command += ["--quiet-wait", "0", "--foreign", "100", "--dir", options.dir / "tmp", "--output", result]
    environment = {**os.environ, "KVBENCH_SLOWED": f"{store}={part}"}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    run = json.loads(result.read_text())
    cell = next(cell["id"] for cell in run["cells"] if not cell.get("reference"))
    return next(s["outcome"]["measured"]["throughput"] for s in run["samples"] if s["cell"] == cell)


def part_for(options, store, work, loss):
    """The part of the engine's time that costs a store `loss` of its rate.

    The time of an operation is that of the engine's call and that of the driver. A large part shows the share of the
    call, much more exactly than a small one would; the loss of a small part follows from it. The share is not the same
    on another day, so it is measured at each start of this script.
    """
    large = 0.4
    pairs = []
    for seed in range(options.pairs):
        rates = {part: rate_alone(options, store, work, part, seed) for part in random.sample([0, large], 2)}
        pairs.append(math.log(rates[0] / rates[large]))
    longer, error = math.exp(statistics.mean(pairs)) - 1, statistics.stdev(pairs) / math.sqrt(len(pairs))
    share = longer * (1 - large) / large
    more = loss / (1 - loss) / share
    exactness = error * (1 + longer) / longer
    part = more / (1 + more)
    print(f"{store}: a part of {part:.4f} costs {loss:.1%} (+/- {2 * exactness * loss:.2%}) of the rate", flush=True)
    return part


def compare(options, name, store, work, old, new, budget):
    """A row of the table: what a duel says of the new side."""
    result = options.dir / f"{name}.json"
    command = [options.kvbench, "duel", old, new, "--stores", store, *work, "--keys", options.keys, "--threads", "1"]
    command += ["--detect", "3%", "--budget", budget, "--warm-up", "0.2", "--quiet-wait", "0", "--foreign", "100"]
    command += ["--dir", options.dir / "tmp", "--output", result]
    # A comparison that was stopped is begun anew: each start of this script plants another part.
    result.unlink(missing_ok=True)
    done = subprocess.run(command, capture_output=True, text=True)
    run = json.loads(result.read_text()) if result.exists() else {}
    if not run.get("finished") or run["comparisons"][0]["end"] == "failed":
        sys.exit(f"{result}: {done.stdout}{done.stderr}")
    comparison = run["comparisons"][0]
    pair = comparison["verdicts"][0] if comparison["verdicts"] else None
    verdict, ratio, low, high = "cannot-tell", "", "", ""
    if pair:
        verdict, ratio, low, high = pair["verdict"], pair["ratio"], pair["low"], pair["high"]
        if pair["first"].endswith("/old"):
            opposite = {"faster": "slower", "slower": "faster", "slightly-faster": "slightly-slower",
                        "slightly-slower": "slightly-faster"}
            verdict, ratio, low, high = opposite.get(verdict, verdict), 1 / ratio, 1 / high, 1 / low
        ratio, low, high = (f"{value:.4f}" for value in (ratio, low, high))
    seconds = comparison["slicing"]["seconds"] + sum(block["seconds"] for block in comparison["blocks"])
    environment = run["environment"]
    return {"store": store, "work": " ".join(work), "verdict": verdict, "ratio": ratio, "low": low, "high": high,
            "blocks": len(comparison["blocks"]), "seconds": round(seconds), "cpu": environment["cpu"],
            "commit": environment["commit"], "started": run["started"]}


def tasks_of(options):
    """Name, store, work, what is planted in the new side, and budget of each comparison, in their order."""
    if options.experiment == "same":
        stores = options.stores.split(",")
        return [(f"{store}-{name}-{number}", store, work, "nothing", "2m")
                for store in stores for name, work in (("get", GET), ("set", SET)) for number in range(10)]
    if options.experiment == "planted":
        return [(f"{kind}-{number}", "map", GET, kind, "10m")
                for kind, count in (("loss", 20), ("gain", 5), ("nothing", 5)) for number in range(count)]
    return [(f"durable-{number}", "map", SYNCED_SET, "loss", "10m") for number in range(8)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvbench", help="the program, built with --features fault-injection")
    parser.add_argument("experiment", choices=["same", "planted", "durable"])
    parser.add_argument("--stores", default="map,rocksdb,redb", help="stores of `same`")
    parser.add_argument("--keys", default="100000")
    parser.add_argument("--pairs", type=int, default=40, help="measurements that find the part to plant")
    parser.add_argument("--seed", type=int, default=1, help="of the load and of the order of the comparisons")
    parser.add_argument("--no-load", action="store_true", help="compare without the load")
    parser.add_argument("--most", type=int, default=1000, help="end after so many comparisons")
    parser.add_argument("--dir", type=Path, default=Path("duel-proof"), help="results; on the disk to measure")
    parser.add_argument("--table", type=Path, help="verdicts so far [DIR/verdicts.csv]")
    options = parser.parse_args()
    options.kvbench, options.dir = str(Path(options.kvbench).resolve()), options.dir.resolve()
    options.dir.mkdir(parents=True, exist_ok=True)
    options.table = options.table or options.dir / "verdicts.csv"

    tasks = tasks_of(options)
    random.Random(options.seed).shuffle(tasks)
    described = subprocess.run([options.kvbench, "describe-build"], check=True, capture_output=True, text=True)
    own = {"experiment": options.experiment, "commit": json.loads(described.stdout)["commit"] or ""}
    rows = {row["name"]: row for row in table.read(options.table) if own.items() <= row.items()}
    left = [task for task in tasks if task[0] not in rows]
    part = 0
    if left and options.experiment != "same":
        loss, work = (0.03, GET) if options.experiment == "planted" else (0.15, SYNCED_SET)
        part = part_for(options, "map", work, loss)
    if left and not options.no_load:
        multiprocessing.Process(target=load, args=(options.seed, options.dir), daemon=True).start()
    for number, (name, store, work, planted, budget) in enumerate(left[:options.most]):
        # A gain is a loss of the other side.
        old = side(options, "old", store, part if planted == "gain" else 0)
        new = side(options, "new", store, part if planted == "loss" else 0)
        row = compare(options, name, store, work, old, new, budget)
        row |= {"experiment": options.experiment, "name": name, "planted": planted}
        table.add(options.table, COLUMNS, [row])
        rows[name] = row
        print(f"{number + 1}/{len(left)}: {name}: the new side is {row['verdict']} after {row['blocks']} blocks", flush=True)
    verdicts = {}
    for row in rows.values():
        verdicts.setdefault((row["store"], row["work"], row["planted"]), []).append(row["verdict"])
    is_held = holds(verdicts)
    if len(left) > options.most:
        print(f"{len(left) - options.most} comparisons are left")
        sys.exit(2)
    sys.exit(0 if is_held else 1)


def holds(verdicts):
    """Prints the verdicts on each kind of comparison. True if the experiment holds."""
    result, differ, equal = True, 0, 0
    expected = {"loss": ("slower", "slightly-slower"), "gain": ("faster", "slightly-faster")}
    for (store, work, planted), found in sorted(verdicts.items()):
        if planted == "nothing":
            own = sum(verdict not in ("equal", "cannot-tell") for verdict in found)
            differ, equal = differ + own, equal + len(found)
            print(f"{store} {work}: {own} of {len(found)} equal sides differ" + ("; look at it" if own > 2 else ""))
            continue
        right = sum(verdict in expected[planted] for verdict in found)
        wrong = sum(verdict not in (*expected[planted], "cannot-tell") for verdict in found)
        print(f"{store} {work}: {right} of {len(found)} with a {planted} are found, {wrong} are called equal or the opposite")
        result &= wrong == 0 and right >= (0.9 if planted == "loss" else 0.8) * len(found)
    return result and differ <= max(1, equal // 12)


if __name__ == "__main__":
    main()

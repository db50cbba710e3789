#!/usr/bin/env python3
"""Time from process start to the first cycle: punctual called as cyclictest, compared
with the original in alternating runs.

    benches/start.py                             # Debian's cyclictest
    benches/start.py --original ./cyclictest     # another build of it
    benches/start.py --options '-q -S -p95'

With --spike=1, which every latency exceeds, both print the time of each wake-up on
CLOCK_MONOTONIC. The first of them is the end of the first cycle. Prints the median
and the ninth decile of each, and of the difference between neighbouring runs.

Needs the original (Debian: rt-tests) and `cargo build --profile dist`.
"""

import argparse
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PUNCTUAL = os.path.join(ROOT, "target", "dist", "punctual")
SPIKE = re.compile(r"Spike:\s*\d+: TS:\s*(\d+)")


def first_cycle(command, env):
    """Returns the time from before the fork to the first wake-up, in milliseconds."""
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    run = subprocess.run(command, env=env, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{shlex.join(command)}: exit {run.returncode}\n{run.stderr}")
    times = [int(found) for found in SPIKE.findall(run.stdout)]
    if not times:
        sys.exit(f"{shlex.join(command)}: no wake-up was listed\n{run.stdout}")
    return min(times) / 1e3 - before / 1e6


def decile(values, nth):
    return statistics.quantiles(values, n=10)[nth - 1] if len(values) > 1 else values[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--original", default="cyclictest")
    parser.add_argument("--punctual", default=PUNCTUAL)
    parser.add_argument("--options", default="-q -t2 -p80 -i1000",
                        help="without -l and -D [default: %(default)s]")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--store", choices=["kept", "new", "none"], default="kept",
                        help="a store that is there, a new one each time, or none")
    arguments = parser.parse_args()
    options = shlex.split(arguments.options) + ["-l3", "--spike=1"]
    with tempfile.TemporaryDirectory() as scratch:
        link = os.path.join(scratch, "cyclictest")
        os.symlink(arguments.punctual, link)
        sides = {"original": [], "punctual": []}
        for number in range(arguments.rounds + 1):
            name = f"{number}.db" if arguments.store == "new" else "store.db"
            store = "none" if arguments.store == "none" else os.path.join(scratch, name)
            env = {**os.environ, "PUNCTUAL_STORE": store}
            pair = {"original": first_cycle([arguments.original] + options, env),
                    "punctual": first_cycle([link] + options, env)}
            # The first pair warms the page cache.
            if number:
                for side, value in pair.items():
                    sides[side].append(value)
    sides["difference"] = [ours - theirs for ours, theirs
                           in zip(sides["punctual"], sides["original"])]
    print(f"{'ms to the first cycle':<22} {'median':>8} {'90%':>8}")
    for side, values in sides.items():
        print(f"{side:<22} {statistics.median(values):8.2f} {decile(values, 9):8.2f}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Overhead of recording events: punctual --explain compared with cyclictest while a
separate trace instance records the same events, in alternating runs.

    sudo benches/armed.py                 # the usual events
    sudo benches/armed.py --full          # --explain=full
    sudo benches/armed.py --runs 5 --seconds 10

Prints for each side the median latency without and with the events, and their
ratio. The medians are over the runs. The threshold is too high for any outlier.
Also prints the memory use of the recorder.

Needs root, cyclictest (Debian: rt-tests) and `cargo build --profile dist`. Mounts
tracefs in a separate mount namespace.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from own_tracefs import TRACING, own_namespace

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PUNCTUAL = os.path.join(ROOT, "target", "dist", "punctual")
INSTANCE = os.path.join(TRACING, "instances", f"armed-bench-{os.getpid()}")


def put(path, value):
    with open(path, "w") as file:
        file.write(value)


class Events:
    """Enables the events that punctual records, in a trace instance without a reader."""

    def __init__(self, names):
        self.names = names

    def __enter__(self):
        os.mkdir(INSTANCE)
        put(f"{INSTANCE}/trace_clock", "mono")
        put(f"{INSTANCE}/buffer_size_kb", "2048")
        for name in self.names:
            system, event = name.split(":")
            folder = f"{INSTANCE}/events/{system}"
            for found in os.listdir(folder):
                fits = found.endswith(event[1:]) if event[0] == "*" else found == event
                if fits and event not in ("page_fault_user", "signal_generate"):
                    put(f"{folder}/{found}/enable", "1")

    def __exit__(self, *_):
        os.rmdir(INSTANCE)


def punctual(options, scratch, more=()):
    store, out = os.path.join(scratch, "store.db"), os.path.join(scratch, "run.json")
    command = [PUNCTUAL, "--store", store, "measure", "timer", "-q", "--json", out]
    command += ["-D", f"{options.seconds}s", "--cpus", str(options.cpu), *more]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(out) as file:
        recording = json.load(file)
    os.remove(out)
    return recording


def cyclictest(options, scratch):
    out = os.path.join(scratch, "cyclictest.json")
    command = ["cyclictest", "-q", "-m", "-p95", "-i1000", "-h400", "-t1", "-a", str(options.cpu)]
    command += ["-D", f"{options.seconds}s", f"--json={out}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(out) as file:
        histogram = json.load(file)["thread"]["0"]["histogram"]
    # Interpolate the median within its microsecond.
    half, below = sum(histogram.values()) / 2, 0
    for us in sorted(map(int, histogram)):
        count = histogram[str(us)]
        if below + count >= half:
            return us + (half - below) / count
        below += count
    return float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--cpu", type=int, default=0)
    parser.add_argument("--full", action="store_true", help="--explain=full")
    options = parser.parse_args()
    own_namespace()
    explain = "--explain=full" if options.full else "--explain"
    armed = [explain, "--threshold", "100s"]
    median = {}
    memory = {False: [], True: []}
    rises = []
    with tempfile.TemporaryDirectory() as scratch:
        events = punctual(options, scratch, armed)["explanation"]["events"]
        for _ in range(options.runs):
            for on in (False, True):
                recording = punctual(options, scratch, armed if on else ())
                median.setdefault(("punctual", on), []).append(recording["threads"][0]["p50_ns"] / 1e3)
                memory[on].append(recording["observer"]["peak_memory_bytes"])
                if on and recording["explanation"]["rise_ns"] is not None:
                    rises.append(recording["explanation"]["rise_ns"] / 1e3)
                if on:
                    with Events(events):
                        value = cyclictest(options, scratch)
                else:
                    value = cyclictest(options, scratch)
                median.setdefault(("cyclictest", on), []).append(value)
    print(f"events: {', '.join(events)}")
    print(f"{'':12}{'off µs':>9}{'on µs':>9}{'ratio':>8}{'rise µs':>9}")
    for tool in ("punctual", "cyclictest"):
        off, on = (statistics.median(median[tool, armed]) for armed in (False, True))
        print(f"{tool:12}{off:9.2f}{on:9.2f}{on / off:8.2f}{on - off:9.2f}")
    if rises:
        print(f"rise as punctual itself measured it at the start: {statistics.median(rises):.2f} µs")
    off, on = (statistics.median(memory[armed]) / 2**20 for armed in (False, True))
    print(f"peak memory: {off:.1f} MiB, armed {on:.1f} MiB (the ring buffer is the kernel's)")


if __name__ == "__main__":
    main()

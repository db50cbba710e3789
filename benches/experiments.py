#!/usr/bin/env python3
"""Measures false alarms and detections of `punctual experiment` on this machine.

    benches/experiments.py equal                  # 20 experiments of 2 min, nothing differs
    benches/experiments.py doubled                # 6 of 5 min, twice as many late wake-ups
    benches/experiments.py doubled --cpu 1 --runs 3

`equal` runs `true` as both conditions for the whole time. At most 1 of 20 experiments
may alarm. `doubled` first runs a short experiment with equal conditions, to find the rate
of late wake-ups and the threshold. Then `--b` starts a thread with a higher real-time
priority that delays the measured thread at the same rate, at random times. At least 5 of
6 experiments must detect it.

Prints a row for each experiment, and a verdict. Exits with 1 after more alarms or fewer
detections. Needs root, or the right to use real-time priorities.
"""

import argparse
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PUNCTUAL = os.path.join(ROOT, "target", "dist", "punctual")

# Above the measured threads, which get 95.
PRIORITY = 97


def disturb(cpu, rate, seconds):
    """Keeps a CPU for `seconds`, `rate` times a second on average, until killed."""
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    while True:
        time.sleep(random.expovariate(rate))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass


def experiment(options, folder, arguments):
    """Runs an experiment. Returns its JSON, its time, and the last line of its messages."""
    command = [options.punctual, "experiment", "--store", os.path.join(folder, "store.db"),
               "--cpus", str(options.cpu), "--json", *arguments]
    # A separate lock folder, so that it can run during measurements on other CPUs.
    env = {**os.environ, "PUNCTUAL_LOCKS": os.path.join(folder, "locks")}
    os.makedirs(env["PUNCTUAL_LOCKS"], exist_ok=True)
    begun = time.monotonic()
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    took = time.monotonic() - begun
    messages = done.stderr.strip().splitlines()
    if done.returncode not in (0, 4):
        return None, took, messages[-1] if messages else f"exit code {done.returncode}"
    return json.loads(done.stdout), took, messages[-1] if messages else ""


def row(number, one, took):
    """Formats the result of an experiment."""
    result = one["results"][0]
    pilot = one["pilot"]
    ratio = result.get("ratio")
    late = [0, 0]
    for block in one["blocks"]:
        late[block["arm"]] += block["late"]
    p = result.get("p")
    print(f"| {number} | {pilot['threshold_ns'] / 1e3:.0f} us | {len(one['blocks']) // 2} of "
          f"{pilot['rounds']} | {late[0]} | {late[1]} | {'' if ratio is None else f'{ratio:.2f}'} "
          f"| {'' if p is None else f'{p:.3f}'} | {result['effect']} | {took / 60:.1f} min "
          f"| {os.getloadavg()[0]:.1f} |", flush=True)
    return result["effect"]


def equal(options, folder, number):
    """Runs an experiment with equal conditions."""
    return experiment(options, folder, [
        "--a", "true", "--b", "true", "-D", "2m", "--block", "5s", "--wash-out", "500ms",
        "--no-early-end"])


def doubled(options, folder, number):
    """Runs an experiment with twice as many late wake-ups in one condition."""
    usual = ["--block", "5s", "--wash-out", "500ms"]
    asked = []
    for _ in range(3):
        first, took, message = experiment(options, folder, [
            "--a", "true", "--b", "true", "--pairs", "6", "--no-early-end", *usual, *asked])
        if first is None:
            return first, took, message
        late = sum(block["late"] for block in first["blocks"])
        measured = sum(block["measured_ns"] for block in first["blocks"]) / 1e9
        threshold = first["pilot"]["threshold_ns"] / 1e9
        # One period longer than the threshold, so that at least one wake-up is late.
        own = [sys.executable, os.path.abspath(__file__), "disturb", "--cpu", str(options.cpu),
               "--rate", f"{max(late, 1) / measured:.4f}", "--seconds", f"{threshold + 1.1e-3:.6f}"]
        found = experiment(options, folder, [
            "--a", "true", "--b", shlex.join(own) + " &", "-D", "5m",
            "--threshold", f"{threshold * 1e9:.0f}ns", *usual])
        # The machine has become quieter: use the proposed threshold, as a user would.
        would = re.search(r"a threshold of ([0-9.]+) (\w+) would do", found[2])
        if would is None:
            return found
        asked = ["--threshold", "".join(would.groups())]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["equal", "doubled", "disturb"])
    parser.add_argument("--cpu", type=int, default=1)
    parser.add_argument("--runs", type=int, help="experiments (20, or 6)")
    parser.add_argument("--punctual", default=PUNCTUAL)
    parser.add_argument("--rate", type=float, default=1.0, help="of disturb: times a second")
    parser.add_argument("--seconds", type=float, default=1e-3, help="of disturb: each time")
    options = parser.parse_args()
    if options.what == "disturb":
        disturb(options.cpu, options.rate, options.seconds)
    runs = options.runs or {"equal": 20, "doubled": 6}[options.what]
    one_run = {"equal": equal, "doubled": doubled}[options.what]
    print("| # | threshold | pairs | late a | late b | rate b/a | p | effect | took | load |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    effects = []
    for number in range(1, runs + 1):
        with tempfile.TemporaryDirectory() as folder:
            one, took, message = one_run(options, folder, number)
        if one is None:
            print(f"| {number} | refused after {took:.0f} s: {message} |", flush=True)
            effects.append("refused")
        else:
            effects.append(row(number, one, took))
    alarms = sum(effect in ("fewer", "more") for effect in effects)
    more = effects.count("more")
    if options.what == "equal":
        print(f"{alarms} of {runs} equal conditions were said to differ")
        sys.exit(0 if alarms <= runs * 0.05 and "refused" not in effects else 1)
    print(f"{more} of {runs} doubled rates were found")
    sys.exit(0 if more >= runs * 5 / 6 - 1e-9 else 1)


if __name__ == "__main__":
    main()

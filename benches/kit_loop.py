#!/usr/bin/env python3
"""CPU time per iteration of a 1 kHz loop: the kit's example in C compared with rt-app.

    benches/kit_loop.py --rt-app PATH             # 7 pairs of 5 s

Both run SCHED_FIFO 80 with locked memory and record a figure of each iteration: the kit in
its histogram, with the guard against system calls, and rt-app in its log in memory. Runs
alternate. The time is that of the process (getrusage), including its start.

Needs root, cc, a `cargo build --profile dist -p punctual-capi`, and rt-app
(github.com/scheduler-tools/rt-app, built with its autogen.sh, configure and make).
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CAPI = os.path.join(ROOT, "crates", "kit", "capi")
LIBRARY = os.path.join(ROOT, "target", "dist", "libpunctual_kit.a")


def rt_app(folder, turns):
    """Returns rt-app's description of the loop."""
    path = os.path.join(folder, "loop.json")
    with open(path, "w") as file:
        json.dump({
            "tasks": {"loop": {
                "policy": "SCHED_FIFO", "priority": 80, "loop": turns,
                "timer": {"ref": "unique", "period": 1000, "mode": "absolute"},
            }},
            # With a calibration of 1, rt-app does not measure it first.
            "global": {"calibration": 1, "lock_pages": True, "logdir": folder,
                       "log_basename": "log", "log_size": 4, "ftrace": "none"},
        }, file)
    return path


def cpu_of(command):
    """Returns the CPU time of a command in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{command[0]}: {done.stdout}{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rt-app", required=True)
    parser.add_argument("--library", default=LIBRARY)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--turns", type=int, default=5000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours = os.path.join(folder, "control_loop")
        subprocess.run(["cc", "-std=c11", "-O2", "-I", os.path.join(CAPI, "include"),
                        os.path.join(CAPI, "examples", "control_loop.c"), options.library,
                        "-lpthread", "-ldl", "-lm", "-o", ours], check=True)
        theirs = rt_app(folder, options.turns)
        seen = {"kit": [], "rt-app": []}
        for pair in range(options.pairs):
            commands = [("kit", [ours, str(options.turns)]), ("rt-app", [options.rt_app, theirs])]
            for name, command in commands[::-1] if pair % 2 else commands:
                seen[name].append(cpu_of(command) / options.turns * 1e6)
    for name, all_of_it in seen.items():
        print(f"{name:7} {statistics.median(all_of_it):6.2f} µs of CPU time a turn "
              f"(median of {len(all_of_it)}; {min(all_of_it):.2f} to {max(all_of_it):.2f})")
    ratios = [ours / theirs for ours, theirs in zip(seen["kit"], seen["rt-app"])]
    print(f"ratio   {statistics.median(ratios):6.2f}; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

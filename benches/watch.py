#!/usr/bin/env python3
"""Overhead of `punctual watch`, compared with bpftrace's runqlat.

The worst case is a program that only wakes threads and switches: `perf bench sched
pipe`. The other one is hackbench. Each runs alone, under `punctual watch` and under
bpftrace, in turns. Prints medians over the turns, ratios to the run alone in the
same turn, and the peak memory of each watcher.

    benches/watch.py [--runs N] [--punctual PATH]

Needs root, perf, bpftrace and hackbench. Mounts tracefs in a separate mount namespace.
"""

import argparse
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

from own_tracefs import own_namespace
from peak_memory import peak_kib

# bpftrace's runqlat without its header, which does not compile with every set of
# kernel headers.
RUNQLAT = """
tracepoint:sched:sched_wakeup, tracepoint:sched:sched_wakeup_new { @woken[args->pid] = nsecs; }
tracepoint:sched:sched_switch {
  if (args->prev_state == 0) { @woken[args->prev_pid] = nsecs; }
  $at = @woken[args->next_pid];
  if ($at) { @us = hist((nsecs - $at) / 1000); }
  delete(@woken[args->next_pid]);
}
END { clear(@woken); }
"""


def sched_pipe(*pinned):
    """Returns microseconds per operation."""
    out = subprocess.run(
        [*pinned, "perf", "bench", "sched", "pipe", "-l", "200000"],
        capture_output=True, text=True, check=True,
    ).stdout
    return float(re.search(r"([\d.]+) usecs/op", out).group(1))


def sched_pipe_on_one_cpu():
    """Returns microseconds per operation, if no CPU needs to be woken."""
    return sched_pipe("taskset", "-c", "0")


def hackbench():
    """Returns seconds."""
    out = subprocess.run(
        ["hackbench", "-l", "2000", "-g", "4"], capture_output=True, text=True, check=True
    ).stdout
    return float(re.search(r"Time: ([\d.]+)", out).group(1))


def start(command):
    if command is None:
        return None
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(3 if command[0] == "bpftrace" else 1)
    if child.poll() is not None:
        sys.exit(f"{command[0]} ended with {child.returncode} before it was to")
    return child


def stop(child):
    """Returns its peak memory in MiB."""
    if child is None:
        return None
    peak = peak_kib(child.pid) or 0
    child.send_signal(signal.SIGINT)
    child.wait()
    return peak / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--punctual", default="target/dist/punctual")
    arguments = parser.parse_args()
    own_namespace()
    watchers = {"alone": None, "punctual": [arguments.punctual, "watch", "-q"]}
    if shutil.which("bpftrace"):
        watchers["bpftrace runqlat"] = ["bpftrace", "-e", RUNQLAT]
    else:
        print("SKIP bpftrace is not here")
    benches = {}
    if shutil.which("perf"):
        benches["perf bench sched pipe (us an operation)"] = sched_pipe
        benches["the same, both on CPU 0 (us an operation)"] = sched_pipe_on_one_cpu
    if shutil.which("hackbench"):
        benches["hackbench (s)"] = hackbench
    if not benches:
        sys.exit("neither perf nor hackbench is here: nothing to measure")
    memory = {name: [] for name in watchers}
    for title, bench in benches.items():
        figures = {name: [] for name in watchers}
        for _ in range(arguments.runs):
            for name, command in watchers.items():
                child = start(command)
                figures[name].append(bench())
                used = stop(child)
                if used is not None:
                    memory[name].append(used)
        print(title)
        for name, values in figures.items():
            ratios = [v / alone for v, alone in zip(values, figures["alone"])]
            print(f"  {name:<18} {statistics.median(values):8.3f}   x {statistics.median(ratios):.3f}")
    for name, values in memory.items():
        if values:
            print(f"memory of {name}: {max(values):.1f} MiB")


if __name__ == "__main__":
    main()

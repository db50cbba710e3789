#!/usr/bin/env python3
"""Measures how fast `punctual import` reads files of samples on one core.

    benches/import.py                      # 200 MB of each format, 7 runs
    benches/import.py --megabytes 1000 --runs 3
    benches/import.py --format jitterdebugger-samples --keep DIR

Creates files as the tools write them, with realistic latencies: a base that wanders,
noise, interrupts and a tail, in whole microseconds. Imports each file in alternating
runs of the whole command, pinned to one CPU: check only, without storing the samples,
and with every sample in the store. Each run uses a new store. Prints the medians of
MB/s (10^6 bytes of the file per second of wall-clock time), CPU time, peak memory
(VmHWM), and the size of the store.

Needs `cargo build --profile dist`. The file is in the page cache. The difference
between wall-clock and CPU time shows the time spent on the disk.
"""

import argparse
import array
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from peak_memory import peak_kib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PUNCTUAL = os.path.join(ROOT, "target", "dist", "punctual")

THREADS = 2
INTERVAL_NS = 1_000_000

# Options of each kind of import, by its name in the output.
WAYS = {
    "checked (--dry-run)": ["--dry-run"],
    "histograms (--no-samples)": ["--no-samples"],
    "every sample kept": [],
}


def latencies(count, seed):
    """Returns realistic random latencies in ns."""
    random.seed(seed)
    wander = 0.0
    values = array.array("q")
    for nth in range(count):
        if nth % 64 == 0:
            wander = 0.98 * wander + random.gauss(0, 60)
        ns = 4_200 + wander + random.lognormvariate(6.2, 0.7)
        draw = random.random()
        if draw < 0.04:  # an interrupt or a softirq before it
            ns += random.expovariate(1 / 3_500)
        if draw < 0.0008:  # a preempted host, a long section
            ns += random.expovariate(1 / 60_000)
        values.append(max(int(ns), 900))
    return values


def write_verbose(path, size, pool):
    """Writes `cyclictest -v`: thread, cycle, latency in µs."""
    with open(path, "w") as file:
        cycle = 0
        while file.tell() < size:
            lines = []
            for _ in range(100_000):
                for thread in range(THREADS):
                    us = pool[(cycle * THREADS + thread) % len(pool)] // 1_000
                    lines.append(f"{thread:8d}:{cycle:8d}:{us:8d}\n")
                cycle += 1
            file.write("".join(lines))


def write_raw(path, size, pool):
    """Writes jitterdebugger's samples.raw: thread, wake-up time, latency in µs."""
    pack = struct.Struct("<IQQQ").pack
    with open(path, "wb") as file:
        due, nth = 2_464_000_000_000, 0
        while file.tell() < size:
            records = []
            for _ in range(100_000):
                due += INTERVAL_NS
                for thread in range(THREADS):
                    ns = pool[nth % len(pool)]
                    nth += 1
                    seconds, nanos = divmod(due + 40_000 * thread + ns, 1_000_000_000)
                    records.append(pack(thread, seconds, nanos, ns // 1_000))
            file.write(b"".join(records))


FORMATS = {
    "cyclictest-samples": ("samples.txt", write_verbose),
    "jitterdebugger-samples": ("samples.raw", write_raw),
}


class Run:
    """Runs an import. Returns its time and resource usage."""

    def __init__(self, binary, cpu, path, format_name, options, scratch):
        store = os.path.join(scratch, "store")
        shutil.rmtree(store, ignore_errors=True)
        os.mkdir(store)
        command = ["taskset", "-c", str(cpu), binary, "import", path, "--format", format_name,
                   "--store", os.path.join(store, "punctual.db"), *options]
        os.sync()
        start = time.monotonic()
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.peak_kib = 0
        while True:
            self.peak_kib = peak_kib(child.pid) or self.peak_kib
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            time.sleep(0.004)
        self.wall = time.monotonic() - start
        self.cpu = usage.ru_utime + usage.ru_stime
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            sys.exit(f"{' '.join(command)}: exit {child.returncode}\n{child.stderr.read().decode()}")
        self.store = sum(entry.stat().st_size for entry in os.scandir(store))


def compare(options, format_name, scratch):
    name, write = FORMATS[format_name]
    path = os.path.join(options.keep or scratch, name)
    if not os.path.exists(path):
        write(path, options.megabytes * 1_000_000, latencies(1 << 20, options.seed))
    size = os.path.getsize(path)
    run = lambda way: Run(options.binary, options.cpu, path, format_name, WAYS[way], scratch)
    run("checked (--dry-run)")  # into the page cache
    runs = {way: [] for way in WAYS}
    for _ in range(options.runs):
        for way in WAYS:
            runs[way].append(run(way))
    print(f"{format_name}, {size / 1e6:.0f} MB, CPU {options.cpu}, medians of {options.runs}:")
    for way, done in runs.items():
        median = lambda figure: statistics.median(figure(run) for run in done)
        rate = [size / 1e6 / run.wall for run in done]
        print(f"  {way:26} {statistics.median(rate):6.0f} MB/s ({min(rate):.0f} to {max(rate):.0f}), "
              f"CPU {median(lambda run: run.cpu):.2f} s, "
              f"peak {median(lambda run: run.peak_kib) / 1024:.1f} MiB, "
              f"store {median(lambda run: run.store) / 1e6:.1f} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200, help="size of each file [200]")
    parser.add_argument("--runs", type=int, default=7, help="runs of each way [7]")
    parser.add_argument("--cpu", type=int, default=min(os.sched_getaffinity(0)),
                        help="the CPU to run on [the first]")
    parser.add_argument("--format", choices=FORMATS, help="only this one")
    parser.add_argument("--seed", type=int, default=1, help="of the latencies [1]")
    parser.add_argument("--binary", default=PUNCTUAL, help="[target/dist/punctual]")
    parser.add_argument("--keep", metavar="DIR", help="make the files here and leave them")
    options = parser.parse_args()
    for needed in (options.binary, shutil.which("taskset")):
        if not needed or not os.path.exists(needed):
            sys.exit(f"{needed or 'taskset'} is not there: cargo build --profile dist; apt install util-linux")
    scratch = tempfile.mkdtemp(prefix="punctual-import-")
    try:
        for format_name in [options.format] if options.format else FORMATS:
            compare(options, format_name, scratch)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()

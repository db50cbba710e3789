#!/usr/bin/env python3
"""Compares punctual with the tool it replaces, in alternating runs on this machine.

    benches/compare.py timer                      # idle
    benches/compare.py timer --load 'make -j4'    # under load
    benches/compare.py --list

Prints for both sides the median over the runs, and the ratio punctual / peer, of:
median and mean latency (or other common figures), CPU time per event (user and
system, whole process), and peak memory (VmHWM). Maxima of single runs mean little
and are not shown.

Needs the peer tools (Debian: rt-tests) and `cargo build --profile dist`. Prints a
line that begins with SKIP for each comparison that this machine does not support.
"""

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from peak_memory import peak_kib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PUNCTUAL = os.path.join(ROOT, "target", "dist", "punctual")


class Run:
    """One finished run: its output and its resource usage."""

    def __init__(self, command, scratch):
        self.scratch = scratch
        out = os.path.join(scratch, "stdout")
        start = time.monotonic()
        # svsematest finds its own program through `_`, which a shell would set.
        env = {**os.environ, "_": shutil.which(command[0]) or command[0]}
        with open(out, "w") as stdout:
            child = subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, cwd=scratch,
                                     env=env)
            self.peak_kib = 0
            while True:
                self.peak_kib = peak_kib(child.pid) or self.peak_kib
                pid, status, usage = os.wait4(child.pid, os.WNOHANG)
                if pid:
                    break
                time.sleep(0.2)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.wall = time.monotonic() - start
        self.cpu = usage.ru_utime + usage.ru_stime
        with open(out) as stdout:
            self.stdout = stdout.read()
        self.stderr = child.stderr.read().decode(errors="replace")
        if child.returncode not in (0, 3):
            sys.exit(f"{' '.join(command)}: exit {child.returncode}\n{self.stderr}")


def weighted(pairs):
    """Returns median and mean of (value, count) pairs in ascending order."""
    pairs = sorted(pairs)
    total = sum(count for _, count in pairs)
    if not total:
        return float("nan"), float("nan"), 0
    seen = 0
    median = pairs[-1][0]
    for value, count in pairs:
        seen += count
        if seen * 2 >= total:
            median = value
            break
    return median, sum(value * count for value, count in pairs) / total, total


# The result of a run is a pair: its number of events, and its rows by name.

def latency(median, mean, events):
    return events, {"median latency, µs": median, "mean latency, µs": mean}


def punctual_figures(run, pick=lambda thread: True):
    """Figures in µs from our JSON. Our buckets are finer than 1 µs."""
    recording = json.loads(run.stdout)
    threads = [t for t in recording["threads"] if pick(t)]
    pairs = [(lower / 1e3, n) for t in threads for lower, n in t["histogram"]["buckets"]]
    median, _, _ = weighted(pairs)
    count = sum(t["histogram"]["count"] for t in threads)
    mean = sum(t["histogram"]["sum_ns"] for t in threads) / max(count, 1) / 1e3
    return latency(median, mean, sum(t["expected"] for t in recording["threads"]))


def of_channel(label):
    """The latency of one of our channels."""
    return lambda run: punctual_figures(run, lambda thread: thread["label"] == label)


def cyclictest_figures(run):
    """From `# Avg Latencies` and the histogram rows (1 µs wide, counted at their
    middle)."""
    pairs = []
    for line in run.stdout.splitlines():
        if re.match(r"^\d{6}\s", line):
            row, *counts = line.split()
            pairs += [(int(row) + 0.5, int(n)) for n in counts]
    median, mean, total = weighted(pairs)
    overflow = re.search(r"# Histogram Overflows:([ \d]*)", run.stdout)
    total += sum(int(n) for n in overflow.group(1).split()) if overflow else 0
    return latency(median, mean, total)


def peer_json(run):
    """The file that a peer wrote with `--json=peer.json`."""
    with open(os.path.join(run.scratch, "peer.json")) as file:
        return json.load(file)


def json_figures(pick):
    """The latency of a peer that writes JSON, which has only the mean."""
    def figures(run):
        mean, events = pick(peer_json(run)["thread"])
        return latency(float("nan"), mean, events)
    return figures


def receivers(threads):
    events = sum(t["sender"]["samples"] for t in threads.values())
    return sum(t["receiver"]["avg"] * t["sender"]["samples"] for t in threads.values()) / events, events


def our_tables(run):
    """Returns our tables by name, with rows by column."""
    return {
        table["name"]: [dict(zip((c["key"] for c in table["columns"]), row)) for row in table["rows"]]
        for table in json.loads(run.stdout)["tables"]
    }


def rounds(run):
    """Counts whole rounds of the ring, as signaltest does."""
    row = our_tables(run)["rounds"][0]
    # All rounds cost CPU time, including those of the warm-up.
    events = json.loads(run.stdout)["threads"][0]["expected"]
    return latency(row["p50_ns"] / 1e3, row["mean_ns"] / 1e3, events)


def printed(run):
    """`C: cycles … Avg: µs` lines."""
    lines = re.findall(r"C:\s*(\d+).*Avg:\s*(\d+)", run.stdout)
    events = sum(int(n) for n, _ in lines)
    mean = sum(int(n) * int(avg) for n, avg in lines) / max(events, 1)
    return latency(float("nan"), mean, events)


def noise(spun, gaps, long_gaps, wall):
    """An event is a second of spinning. With real-time throttling, each second has a
    false gap of 50 ms."""
    return spun, {
        "gaps of 10 µs and more, per s spun": gaps / max(spun, 1e-9),
        "of 1 ms and more, per s spun": long_gaps / max(spun, 1e-9),
        "spun, s per s": spun / wall,
    }


def our_noise(run):
    tables = our_tables(run)
    spun = sum(row["spun_ns"] for row in tables["spinning"]) / 1e9
    gaps = sum(row["count"] for row in tables["gaps"] if row["cause"] != "below the threshold")
    # A sample is the largest gap of a window, so each window counts at most one gap.
    buckets = [b for t in json.loads(run.stdout)["threads"] for b in t["histogram"]["buckets"]]
    return noise(spun, gaps, sum(n for lower, n in buckets if lower >= 1_000_000), run.wall)


def oslat_noise(run):
    """Buckets are 1 µs wide, and the last one has all larger values."""
    threads = peer_json(run)["thread"].values()
    beyond = lambda micros: sum(n for t in threads for key, n in t["histogram"].items() if int(key) >= micros)
    return noise(sum(t["duration"] for t in threads), beyond(10), beyond(1000), run.wall)


def reports(count, run):
    """The result of the kernel's hardware latency detector."""
    return run.wall, {"reports above 10 µs, per s": count / run.wall}


def hwlatdetect_reports(run):
    return reports(int(re.search(r"Samples exceeding threshold: (\d+)", run.stdout).group(1)), run)


def our_reports(run):
    return reports(sum(t["recorded"] for t in json.loads(run.stdout)["threads"]), run)


def inversions(count, run):
    return count, {"inversions per s": count / run.wall}


def ours(options, *arguments):
    return [PUNCTUAL, "measure", *arguments, "-q", "-D", f"{options.seconds}s", "--json"]


def timer(options):
    return (
        ours(options, "timer", "-i", f"{options.interval}us", "--priority", "95"),
        punctual_figures,
        ["cyclictest", "-q", "-m", "-S", "-p", "95", "-i", str(options.interval), "-D",
         str(options.seconds), "-h", "20000"],
        cyclictest_figures,
    )


def of_pairs(peer, options):
    """A pair of the peer's threads on one CPU."""
    return ([peer, "-a", "1", "-t", "1", "-p", "80", "-i", str(options.interval), "-D",
             str(options.seconds), "-q", "--json=peer.json"], json_figures(receivers))


def exchange(peer, via):
    """One CPU, with a message every interval."""
    return lambda options: (
        ours(options, "wakeup", "--via", via, "--cpus", "1", "--pairs", "same", "--warm", "-p", "80", "-i",
             f"{options.interval}us"),
        punctual_figures,
        *of_pairs(peer, options),
    )


def signal_ring(options):
    return (
        ours(options, "signal", "--placement", "same", "--cpus", "1", "-p", "80", "--burst", "16",
             "-i", "10ms"),
        rounds,
        ["signaltest", "-a", "1", "-t", "2", "-p", "80", "-D", str(options.seconds), "-q",
         "--json=peer.json"],
        json_figures(lambda threads: (threads["0"]["avg"], threads["0"]["cycles"])),
    )


def signal_hop(options):
    """From the sending thread to the waiting one. sigwaittest's sender was just woken by
    the other thread and has warm caches, as have ours within a burst."""
    return (
        ours(options, "signal", "--placement", "same", "--cpus", "1", "-p", "80", "--burst", "16", "-i",
             f"{16 * options.interval}us"),
        of_channel("thread 0 to 1"),
        *of_pairs("sigwaittest", options),
    )


def deadline(options):
    return (
        ours(options, "deadline", "--runtime", "12ms", "--deadline", "20ms", "--period", "20ms"),
        punctual_figures,
        ["cyclicdeadline", "-i", "20000", "-s", "4000", "-D", str(options.seconds), "-q"],
        printed,
    )


def migrate(options):
    """The thread with the highest priority. Both use the same rounds."""
    return (
        ours(options, "migrate"),
        of_channel("highest"),
        ["rt-migrate-test", "-p", "93", "-r", "2", "-s", "18", "-l", str(options.seconds * 50), "-q",
         "--json=peer.json"],
        json_figures(lambda threads: (threads[max(threads, key=int)]["avg"], options.seconds * 50)),
    )


def hardware(options):
    """Spinning on all CPUs. Ours leaves a tenth of the time to other threads, to stay
    below the real-time throttle."""
    return (
        ours(options, "hardware", "-p", "90", "--window", "100ms", "--width", "90ms"),
        our_noise,
        ["oslat", "-c", ",".join(map(str, sorted(os.sched_getaffinity(0)))), "-f", "90", "-b", "1024",
         "-D", str(options.seconds), "-q", "--json=peer.json"],
        oslat_noise,
    )


def hardware_hwlat(options):
    """The kernel's tracer, which both start."""
    return (
        ours(options, "hardware", "--source", "hwlat", "--window", "200ms", "--width", "100ms"),
        our_reports,
        ["hwlatdetect", "--duration", f"{options.seconds}s", "--threshold", "10", "--window", "200000",
         "--width", "100000"],
        hwlatdetect_reports,
    )


def inversion(options):
    """pi_stress counts inversions but does not measure their length. It starts the
    next one immediately, and ours starts one every 500 µs."""
    return (
        ours(options, "inversion", "--lock", "inherit", "--hold", "10us", "--spin", "10us", "-i", "500us",
             "--cpus", "1"),
        lambda run: inversions(json.loads(run.stdout)["threads"][0]["expected"], run),
        ["pi_stress", "-g", "1", "-u", "-D", str(options.seconds), "-q", "--json=peer.json"],
        lambda run: inversions(peer_json(run)["inversion"], run),
    )


def no_hwlat():
    """Returns why the kernel's detector cannot be compared here."""
    for tracing in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing"):
        try:
            with open(f"{tracing}/available_tracers") as tracers:
                return None if "hwlat" in tracers.read().split() else \
                    "the kernel has no hwlat tracer (CONFIG_HWLAT_TRACER)"
        except OSError:
            pass
    return "tracefs cannot be read"


class Comparison:
    """A probe and its peer. `build` returns the command of each side and a function that
    reads its output. `missing` returns a missing prerequisite of the machine."""

    def __init__(self, build, peer, missing=lambda: None):
        self.build, self.peer, self.missing = build, peer, missing


# One entry per probe that has a peer. If the peer prints only a mean, its median is NaN.
COMPARISONS = {
    "timer": Comparison(timer, "cyclictest"),
    "wakeup-mutex": Comparison(exchange("ptsematest", "mutex"), "ptsematest"),
    "wakeup-sysv": Comparison(exchange("svsematest", "sem-sysv"), "svsematest"),
    "wakeup-mq": Comparison(exchange("pmqtest", "mq"), "pmqtest"),
    "signal": Comparison(signal_ring, "signaltest"),
    "signal-hop": Comparison(signal_hop, "sigwaittest"),
    "deadline": Comparison(deadline, "cyclicdeadline"),
    "migrate": Comparison(migrate, "rt-migrate-test"),
    "hardware": Comparison(hardware, "oslat"),
    "hardware-hwlat": Comparison(hardware_hwlat, "hwlatdetect", no_hwlat),
    "inversion": Comparison(inversion, "pi_stress"),
}


def measure(command, figures, scratch):
    run = Run(command, scratch)
    events, rows = figures(run)
    return {
        **rows,
        "CPU per event, µs": run.cpu / max(events, 1) * 1e6,
        "peak memory, MiB": run.peak_kib / 1024,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("probe", nargs="?", choices=sorted(COMPARISONS))
    parser.add_argument("--list", action="store_true", help="the probes that have a peer")
    parser.add_argument("--runs", type=int, default=7, help="runs of each side")
    parser.add_argument("--seconds", type=int, default=10, help="length of a run")
    parser.add_argument("--interval", type=int, default=200, help="interval, µs")
    parser.add_argument("--load", help="a shell command that runs meanwhile")
    options = parser.parse_args()
    if options.list or not options.probe:
        for name, comparison in sorted(COMPARISONS.items()):
            print(f"{name:14} {comparison.peer}")
        return
    comparison = COMPARISONS[options.probe]
    peer = comparison.peer
    if not os.path.exists(PUNCTUAL):
        sys.exit(f"{PUNCTUAL} is not there: cargo build --profile dist")
    if not shutil.which(peer):
        sys.exit(f"{peer} is not there: apt-get install rt-tests")
    if reason := comparison.missing():
        print(f"SKIP {options.probe}: {reason}")
        return
    ours, our_figures, theirs, their_figures = comparison.build(options)
    print(f"A: {' '.join(ours).replace(ROOT + '/', '')}\nB: {' '.join(theirs)}")
    load = None
    if options.load:
        print(f"load: {options.load}")
        load = subprocess.Popen(options.load, shell=True, start_new_session=True,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    sides = {"A": [], "B": []}
    try:
        with tempfile.TemporaryDirectory() as scratch:
            os.environ["PUNCTUAL_STORE"] = os.path.join(scratch, "store.db")
            for turn in range(options.runs):
                # Alternate which side runs first.
                order = "AB" if turn % 2 == 0 else "BA"
                for side in order:
                    command, figures = (ours, our_figures) if side == "A" else (theirs, their_figures)
                    sides[side].append(measure(command, figures, scratch))
                    print(f"\r{turn + 1}/{options.runs} {side}", end="", file=sys.stderr, flush=True)
    finally:
        if load:
            os.killpg(load.pid, signal.SIGTERM)
            load.wait()
    print("\r", end="", file=sys.stderr)
    print(f"\n{'median of ' + str(options.runs) + ' runs':34} {'punctual':>12} {peer:>14} {'ratio':>8}   ratio run by run")
    for name in sides["A"][0]:
        a, b = ([run[name] for run in sides[side]] for side in "AB")
        pairs = [x / y for x, y in zip(a, b) if y]
        spread = f"{min(pairs):.2f} to {max(pairs):.2f}" if pairs else "-"
        middle = f"{statistics.median(pairs):.2f}" if pairs else "-"
        print(f"{name:34} {statistics.median(a):12.2f} {statistics.median(b):14.2f} {middle:>8}   {spread}")


if __name__ == "__main__":
    main()

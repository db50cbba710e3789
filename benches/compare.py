#!/usr/bin/env python3
"""punctual beside the tool it replaces, in alternating runs on this machine.

    benches/compare.py timer                      # idle
    benches/compare.py timer --load 'make -j4'    # under load
    benches/compare.py --list

Prints, for both sides, the median over the runs of: median and mean latency,
CPU time per event (user and system, whole process), peak memory (VmHWM), and
the ratio punctual / peer. Maxima of single runs mean little and are not shown.

Needs the peer tools (Debian: rt-tests) and `cargo build --release`.
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

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PUNCTUAL = os.path.join(ROOT, "target", "release", "punctual")


class Run:
    """One finished run: what it printed, what it used."""

    def __init__(self, command, scratch):
        self.scratch = scratch
        out = os.path.join(scratch, "stdout")
        start = time.monotonic()
        # svsematest looks for itself by what the shell leaves in `_`.
        env = {**os.environ, "_": shutil.which(command[0]) or command[0]}
        with open(out, "w") as stdout:
            child = subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, cwd=scratch,
                                     env=env)
            self.peak_kib = 0
            while True:
                self._look(child.pid)
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

    def _look(self, pid):
        # Not ru_maxrss: that also counts what was before exec.
        try:
            with open(f"/proc/{pid}/status") as status:
                for line in status:
                    if line.startswith("VmHWM:"):
                        self.peak_kib = int(line.split()[1])
        except OSError:
            pass


def weighted(pairs):
    """Median and mean of (value, count) pairs, rising."""
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


def punctual_figures(run, pick=lambda thread: True):
    """µs figures from our JSON; our buckets are finer than 1 µs."""
    recording = json.loads(run.stdout)
    threads = [t for t in recording["threads"] if pick(t)]
    pairs = [(lower / 1e3, n) for t in threads for lower, n in t["histogram"]["buckets"]]
    median, _, _ = weighted(pairs)
    count = sum(t["histogram"]["count"] for t in threads)
    mean = sum(t["histogram"]["sum_ns"] for t in threads) / max(count, 1) / 1e3
    events = sum(t["expected"] for t in recording["threads"])
    return median, mean, events


def cyclictest_figures(run):
    """From `# Avg Latencies` and the histogram rows (1 µs wide: rows count at
    their middle)."""
    pairs = []
    for line in run.stdout.splitlines():
        if re.match(r"^\d{6}\s", line):
            row, *counts = line.split()
            pairs += [(int(row) + 0.5, int(n)) for n in counts]
    median, mean, total = weighted(pairs)
    overflow = re.search(r"# Histogram Overflows:([ \d]*)", run.stdout)
    total += sum(int(n) for n in overflow.group(1).split()) if overflow else 0
    return median, mean, total


def json_figures(pick):
    """Of a peer that writes `--json=peer.json`: only the mean is there."""
    def figures(run):
        with open(os.path.join(run.scratch, "peer.json")) as file:
            mean, events = pick(json.load(file)["thread"])
        return float("nan"), mean, events
    return figures


def receivers(threads):
    events = sum(t["sender"]["samples"] for t in threads.values())
    return sum(t["receiver"]["avg"] * t["sender"]["samples"] for t in threads.values()) / events, events


def rounds(run):
    """Whole rounds of the ring, as signaltest counts them."""
    recording = json.loads(run.stdout)
    table = next(t for t in recording["tables"] if t["name"] == "rounds")
    row = dict(zip((c["key"] for c in table["columns"]), table["rows"][0]))
    # All rounds cost CPU time, those of the warm-up too.
    events = recording["threads"][0]["expected"]
    return row["p50_ns"] / 1e3, row["mean_ns"] / 1e3, events


def printed(run):
    """`C: cycles … Avg: µs` lines."""
    lines = re.findall(r"C:\s*(\d+).*Avg:\s*(\d+)", run.stdout)
    events = sum(int(n) for n, _ in lines)
    return float("nan"), sum(int(n) * int(avg) for n, avg in lines) / max(events, 1), events


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


def exchange(peer, via):
    """One CPU, a message every interval."""
    return lambda options: (
        ours(options, "wakeup", "--via", via, "--cpus", "1", "--pairs", "same", "--warm", "-p", "80", "-i",
             f"{options.interval}us"),
        punctual_figures,
        [peer, "-a", "1", "-t", "1", "-p", "80", "-i", str(options.interval), "-D", str(options.seconds), "-q",
         "--json=peer.json"],
        json_figures(receivers),
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


def deadline(options):
    return (
        ours(options, "deadline", "--runtime", "12ms", "--deadline", "20ms", "--period", "20ms"),
        punctual_figures,
        ["cyclicdeadline", "-i", "20000", "-s", "4000", "-D", str(options.seconds), "-q"],
        printed,
    )


def migrate(options):
    """The thread of the highest priority; the rounds are alike."""
    return (
        ours(options, "migrate"),
        lambda run: punctual_figures(run, lambda thread: thread["label"] == "highest"),
        ["rt-migrate-test", "-p", "93", "-r", "2", "-s", "18", "-l", str(options.seconds * 50), "-q",
         "--json=peer.json"],
        json_figures(lambda threads: (threads[max(threads, key=int)]["avg"], options.seconds * 50)),
    )


# One entry per probe that has a peer: the commands and how to read them. Where
# the peer prints only a mean, its median is not a number.
COMPARISONS = {
    "timer": (timer, "cyclictest"),
    "wakeup-mutex": (exchange("ptsematest", "mutex"), "ptsematest"),
    "wakeup-sysv": (exchange("svsematest", "sem-sysv"), "svsematest"),
    "wakeup-mq": (exchange("pmqtest", "mq"), "pmqtest"),
    "signal": (signal_ring, "signaltest"),
    "deadline": (deadline, "cyclicdeadline"),
    "migrate": (migrate, "rt-migrate-test"),
}


def measure(command, figures, scratch):
    run = Run(command, scratch)
    median, mean, events = figures(run)
    return {
        "median latency, µs": median,
        "mean latency, µs": mean,
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
        for name, (_, peer) in sorted(COMPARISONS.items()):
            print(f"{name:12} {peer}")
        return
    build, peer = COMPARISONS[options.probe]
    if not os.path.exists(PUNCTUAL):
        sys.exit(f"{PUNCTUAL} is not there: cargo build --release")
    if not shutil.which(peer):
        sys.exit(f"{peer} is not there: apt-get install rt-tests")
    ours, our_figures, theirs, their_figures = build(options)
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
                # Who begins changes too.
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
    print(f"\n{'median of ' + str(options.runs) + ' runs':24} {'punctual':>12} {peer:>14} {'ratio':>8}   ratio run by run")
    for name in sides["A"][0]:
        a, b = ([run[name] for run in sides[side]] for side in "AB")
        pairs = [x / y for x, y in zip(a, b) if y]
        spread = f"{min(pairs):.2f} to {max(pairs):.2f}" if pairs else "-"
        middle = f"{statistics.median(pairs):.2f}" if pairs else "-"
        print(f"{name:24} {statistics.median(a):12.2f} {statistics.median(b):14.2f} {middle:>8}   {spread}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Predictions of `explain --without`, compared with runs in which the cause was really removed.

    sudo benches/what_if.py                              # twelve causes, 2 min each
    sudo benches/what_if.py --causes lock copy --seconds 120
    sudo benches/what_if.py --detail windows             # the default of explain --pid

Builds and runs crates/cli/punctual/tests/culprits/jobs.c, whose jobs are delayed at random times by
the cause and, independently, by additional computations (`overrun`). `punctual explain --budget 1ms`
watches it, and `punctual explain last --without CAUSE` predicts the late seconds a day that would be
left. Then the program runs without the cause and is watched again.

Prints a row for each cause: the late seconds with the cause, the prediction without it, the late
seconds of the run without it, and whether they are within the predicted 95% interval. The
interval is for the mean rate, so a correct prediction can miss a run of a minute by chance. Exits
with 1 if more than one of twelve are outside. Needs root and cc.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from own_tracefs import own_namespace
from process_group import kill_group

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCE = os.path.join(ROOT, "crates/cli/punctual/tests/culprits/jobs.c")

# Values of --without for each way of the program.
CAUSES = {
    "sleep": ["own sleep"],
    "peers": ["equal rank:equal"],
    "lock": ["lock holder:holder"],
    "sleeps": ["lock holder:sleeper"],
    "condition": ["waiting:signaller"],
    "chain": ["waiting:first"],
    "pipe": ["waiting:producer"],
    "network": ["waiting:peer"],
    "fsync": ["device"],
    "copy": ["page fault"],
    "call": ["system call:pwrite64"],
    "late": ["stopped"],
}
OTHER = "overrun"
BUDGET = "1ms"


def watched(options, program, ways, folder):
    """Watches the program with these ways. The recording is then the last of the store."""
    env = {**os.environ, "JOBS_PER_SECOND": str(options.rate)}
    cpu = str(max(os.sched_getaffinity(0)))
    child = subprocess.Popen([program, cpu, folder, *ways], stdout=subprocess.DEVNULL, env=env,
                             start_new_session=True)
    try:
        time.sleep(0.5)
        # The other threads of the program are not judged.
        tasks = f"/proc/{child.pid}/task"
        turns = next(task for task in os.listdir(tasks)
                     if read(f"{tasks}/{task}/comm") == "turns")
        punctual(options, folder, "explain", "--pid", turns, "-q", "--budget", BUDGET,
                 "-D", f"{options.seconds}s", "--detail", options.detail)
    finally:
        kill_group(child.pid)
        child.wait()


def read(path):
    with open(path) as file:
        return file.read().strip()


def punctual(options, folder, *arguments):
    command = [options.punctual, "--store", os.path.join(folder, "store.db"), *arguments]
    done = subprocess.run(command, env={**os.environ, "XDG_STATE_HOME": folder},
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise ChildProcessError(f"{' '.join(command)}: {done.returncode}: {done.stderr}")
    return done.stdout


def predicted(options, folder, causes):
    """Returns the late seconds, those left without the causes, and the interval of a day."""
    text = punctual(options, folder, "explain", "last",
                    *[word for cause in causes for word in ("--without", cause)])
    text = " ".join(text.replace(",", "").split())
    found = re.search(r"(\d+) in [\d.]+ \w+ (\d+) without; then (\d+) to (\d+) a day", text)
    if found is None:
        raise ValueError(f"no prediction in: {text}")
    return [int(group) for group in found.groups()]


def late_seconds(options, folder):
    """Returns the late seconds of the last recording: those with a job above the budget."""
    recording = json.loads(punctual(options, folder, "show", "last", "--json"))
    rows = recording["series"]["rows"]
    return len({row["start_ns"] // 10**9 for row in rows if (row["max_ns"] or 0) > 10**6})


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--causes", nargs="+", choices=CAUSES, default=list(CAUSES))
    parser.add_argument("--seconds", type=int, default=60, help="of each run, at least 60")
    parser.add_argument("--rate", type=float, default=0.35, help="delays a second of each cause")
    parser.add_argument("--detail", choices=["full", "windows"], default="full")
    parser.add_argument("--punctual", default=os.path.join(ROOT, "target", "dist", "punctual"))
    options = parser.parse_args()
    options.punctual = os.path.abspath(options.punctual)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    own_namespace()
    print("| cause removed | late seconds with it | predicted without | 95% a day | measured without "
          "| a day | within | load |")
    print("|---|---|---|---|---|---|---|---|")
    within = 0
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "jobs")
        subprocess.run(["cc", "-O1", "-pthread", "-o", program, SOURCE], check=True)
        for cause in options.causes:
            watched(options, program, [cause, OTHER], folder)
            before, left, least, most = predicted(options, folder, CAUSES[cause])
            watched(options, program, [OTHER], folder)
            found = late_seconds(options, folder)
            a_day = found * 86_400 / options.seconds
            good = least <= a_day <= most
            within += good
            print(f"| {cause} | {before} | {left} | {least:,} to {most:,} | {found} | {a_day:,.0f} "
                  f"| {'yes' if good else 'no'} | {os.getloadavg()[0]:.1f} |", flush=True)
    print(f"{within} of {len(options.causes)} measured rates are within the predicted interval")
    sys.exit(0 if within >= len(options.causes) * 11 / 12 - 1e-9 else 1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Tests that `punctual improve` finds the one helpful setting, and restores all settings.

    benches/improve.py                            # 30 min
    benches/improve.py --cpu 0 --kills 20 --time 40m

The load of each block is artificial: a thread with a higher real-time priority wakes at
random times and runs on a CPU that unbound workqueues may use, like a badly written driver.
Only one of the four settings, the mask of the workqueues, moves it off the measured CPU.
Searches are first killed (SIGKILL) at random moments. Then one runs to its end. It must
select the mask and no other setting, and restore all settings.

Exits with 1 after any other result. Needs root, 2 CPUs, and settings that the audit does not
already accept. Prints a line that begins with SKIP if something is missing.
"""

import argparse
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PUNCTUAL = os.path.join(ROOT, "target", "dist", "punctual")

MASK = "/sys/devices/virtual/workqueue/cpumask"
PLANTED = "workqueue-cpus"

# The tested settings, each with the file that it writes.
FILES = {
    PLANTED: MASK,
    "timer-migration": "/proc/sys/kernel/timer_migration",
    "autogroup": "/proc/sys/kernel/sched_autogroup_enabled",
    "stat-interval-s": "/proc/sys/vm/stat_interval",
}

# Wake-ups per second on each CPU of the mask, and the run time of each, which is longer than
# a hypervisor usually takes the CPU.
RATE = 2.0
RUNS = 12e-3
BUDGET = "8ms"

# Above the measured threads, which get 95.
PRIORITY = 97


def read(path):
    with open(path) as file:
        return file.read().strip()


def disturb():
    """Runs on CPUs in the workqueues' mask until killed."""
    cpus = [cpu for cpu in range(os.cpu_count()) if cpu in os.sched_getaffinity(0)]
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    while True:
        time.sleep(random.expovariate(RATE * len(cpus)))
        cpu = random.choice(cpus)
        if int(read(MASK).replace(",", ""), 16) >> cpu & 1:
            os.sched_setaffinity(0, {cpu})
            end = time.monotonic() + RUNS
            while time.monotonic() < end:
                pass


def settings():
    return {name: read(path) for name, path in FILES.items()}


def improve(options, folder, *more):
    """Returns the command line and environment of a search."""
    load = shlex.join([sys.executable, os.path.abspath(__file__), "--disturb"])
    command = [options.punctual, "improve", "--store", os.path.join(folder, "store.db"),
               "--cpus", str(options.cpu), "--only", ",".join(FILES),
               "-D", options.time, "--load", f"command:{load}",
               "-o", os.path.join(folder, "improve.toml"), *more]
    env = {**os.environ, "PUNCTUAL_LOCKS": os.path.join(folder, "locks")}
    os.makedirs(env["PUNCTUAL_LOCKS"], exist_ok=True)
    return command, env


def in_force(before):
    """Returns the settings that differ from before."""
    return [name for name, value in settings().items() if value != before[name]]


def killed(options, before, while_tried):
    """Kills a search at a random moment. Returns the settings in force at that moment, and
    whether all are restored. With `while_tried`, a tested setting must be in force."""
    with tempfile.TemporaryDirectory() as folder:
        # No budget: such short blocks need a threshold that is often exceeded.
        command, env = improve(options, folder, "--quiet", "--block", "300ms", "--wash-out", "50ms")
        child = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        begun = time.monotonic()
        time.sleep(random.uniform(0, 6))
        if while_tried:
            # The search begins with equal conditions, for about half a minute.
            time.sleep(random.uniform(0, 30))
            while not in_force(before) and child.poll() is None:
                time.sleep(0.01)
        moment = time.monotonic() - begun
        if child.poll() is not None:
            # In such short blocks, equal conditions may seem to differ. Kill another search.
            print(f"the search ended by itself after {moment:.2f} s", flush=True)
            return None
        changed = in_force(before)
        child.send_signal(signal.SIGKILL)
        child.wait()
        deadline = time.monotonic() + 20
        while settings() != before and time.monotonic() < deadline:
            time.sleep(0.05)
        good = settings() == before
        print(f"killed after {moment:.2f} s, in force: {', '.join(changed) or '-'}: "
              f"{'as before' if good else settings()}", flush=True)
        return changed, good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu", type=int, default=1)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--only-kills", action="store_true", help="no search to its end")
    parser.add_argument("--time", default="30m")
    parser.add_argument("--punctual", default=PUNCTUAL)
    parser.add_argument("--disturb", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.disturb:
        disturb()
    before = settings()
    with tempfile.TemporaryDirectory() as folder:
        command, env = improve(options, folder, "--dry-run", "--json", "--budget", BUDGET)
        planned = json.loads(subprocess.run(command, env=env, check=True, capture_output=True).stdout)
        tried = [one["assignment"].split("=")[0] for one in planned["tried"]]
        if PLANTED not in tried or len(tried) < 2:
            print(f"SKIP: the audit recommends only {', '.join(tried) or 'nothing'} of these here")
            return
        print(f"tried: {', '.join(tried)}", flush=True)
        kills = []
        for _ in range(3 * options.kills):
            if len(kills) < options.kills:
                kills += filter(None, [killed(options, before, len(kills) % 2 == 1)])
        if len(kills) < options.kills:
            sys.exit(f"only {len(kills)} of {options.kills} searches were killed")
        bad = sum(not good for _, good in kills)
        at_work = sum(bool(changed) for changed, _ in kills)
        if options.only_kills:
            print(f"{options.kills - bad} of {options.kills} kills left all as before, "
                  f"{at_work} of them while a setting was in force")
            sys.exit(1 if bad else 0)
        begun = time.monotonic()
        command, env = improve(options, folder, "--json", "--budget", BUDGET)
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        print(done.stderr.strip())
        found = json.loads(done.stdout)
        print(f"{found['sentence']}, after {(time.monotonic() - begun) / 60:.1f} min\n")
        print("| setting | rate | 95% | kept | why |\n|---|---|---|---|---|")
        for one in found["tried"]:
            ratio, low, high = (f"{one[key]:.2f}" if one.get(key) is not None else ""
                                for key in ("ratio", "low", "high"))
            print(f"| {one['assignment']} | {ratio} | {low} to {high} | {one['kept']} "
                  f"| {one['why']} |")
        kept = [one["assignment"].split("=")[0] for one in found["tried"] if one["kept"]]
        same = settings() == before
        print(f"\nkept: {', '.join(kept) or 'none'}; settings: {'as before' if same else settings()}; "
              f"{options.kills - bad} of {options.kills} kills left all as before, "
              f"{at_work} of them while a setting was in force")
        sys.exit(0 if kept == [PLANTED] and same and not bad else 1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Causes of slow jobs that a program induces, and their explanations by punctual.

    sudo benches/causes.py                               # all causes, 30 runs of 1.5 s
    sudo benches/causes.py --runs 4 --causes lock copy
    sudo benches/causes.py --detail windows --runs 1 --seconds 4   # the default of explain --pid
    sudo benches/causes.py --punctual target/debug/punctual --verbose

Builds and runs crates/cli/punctual/tests/culprits/jobs.c while `punctual explain --pid` watches it.
Each fourth of its jobs is delayed in one of the ways below, in turn. The program measures each
delay with its own clock, and prints kind, name and times. A recording stores about 64 outliers, so
each run is short enough for its delayed jobs and those of its helper threads. With --detail windows,
the full stage is recorded only for a part of the time. Each cause then runs alone, --runs times.

    lock      holder of a lock that is preempted     peers     thread of equal priority
    holds     holder of a lock that runs             higher    thread of higher priority
    sleeps    holder of a lock that sleeps           migrate   move to a CPU that is in use
    pi        lock with priority inheritance         pipe      empty pipe, process computes
    spin      the same, holder on another CPU        full      full pipe, process computes
    condition condition variable of another thread   network   UDP request, process sleeps
    chain     semaphores over three threads          fsync     disk
    stop      SIGSTOP in a job                       fault     page faults of a mapped file
    late      SIGSTOP in the release wait            touch     page faults of huge pages
    call      pwrite of 8 MB                         copy      copy on write after a fork
    overrun   own computation                        flood     softirqs of the network (rps_cpus)
    sleep     own sleep                              quota     CPU quota of a control group

Prints a row for each cause:

    induced    jobs with this cause that the program finished while it was watched
    over       those that took longer than the budget. A job that is late for another reason, while
               its induced delay is within the budget and less than half of it, is not counted
    explained  those of `over` that are stored with an explanation
    named      those of `explained` with a share of the right kind and name
    alike      those of `explained` without such a share that resemble one that has it
    unknown    those of the others whose largest share is an unknown cause
    accused    those of the others whose largest share is another cause
    main       those of `named` in which this share is the largest
    strict     those of `named` whose share differs from the program's figure by at most 10% or 20 us
    exact      the same, if a smaller share may be completed by the shares below
    error      median of (share - figure) / figure

The program's clock also counts interrupts, softirqs, steal time and the return to the thread, which
are separate shares. `exact` adds all of these in the job to a share that is too small, also those
outside of the induced delay. For `fsync`, `fault` and `quota`, it also adds the times in which the
thread is runnable, because these delays consist of many sleeps. For `fsync`, both columns compare the
sum of all shares in the call. Jobs that began before the recorder was attached count as induced.

The share of page faults excludes the entry into the kernel and the return
from it, so `copy`, with 2,048 short faults, is too small by about 0.6 us or more for each fault. The
same applies to the interrupts of `flood`: on a virtual machine, entry and exit take longer than the
handlers.

`flood` runs on its own, in a network namespace where softirqs of the loopback device run on the
program's CPU. It is not induced with one CPU. Needs root, cc, unshare and ip. All settings are
those of own namespaces or of a control group that is removed. A gap counts as delay by `quota` only
if its group was throttled in it (cpu.stat): on a busy machine, turns of other threads look the same.
"""

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from own_tracefs import own_namespace
from process_group import kill_group

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCE = os.path.join(ROOT, "crates/cli/punctual/tests/culprits/jobs.c")
CAUSES = [
    "higher", "peers", "migrate", "lock", "holds", "sleeps", "pi", "spin", "condition", "chain",
    "pipe", "full", "network", "fsync", "fault", "touch", "copy", "call", "stop", "late",
    "overrun", "sleep", "flood", "quota",
]
BUDGET_NS = 1_000_000
RELEASE = ("clock_nanosleep", "CLOCK_MONOTONIC")
QUOTA_BUDGET_NS = 20_000_000

# Shares that the program's clock counts as part of the induced delay.
NOT_SEEN_BY_THE_CLOCK = {
    "interrupt", "softirq", "nmi", "silence", "idle_exit", "scheduling", "return_to_user",
}
RUNNABLE = {"higher_priority", "competing", "blocking"}
# Shares of unknown cause. `not_run` states that the CPU was idle, and only names what may be the cause.
UNKNOWN = {"unexplained", "undecided", "silence", "not_run"}
# Delays that consist of many sleeps.
OF_MANY_SLEEPS = {"fsync", "fault", "quota"}

# Sets the CPU that handles the packets of the loopback device, then runs the program.
IN_OWN_NETWORK = (
    'mount -t sysfs none /sys && ip link set lo up && '
    'echo "$0" > /sys/class/net/lo/queues/rx-0/rps_cpus && exec "$@"'
)


def cpu_mask(cpu):
    """Returns a CPU mask in the form of the kernel: groups of 32 bits, the highest first."""
    return f"{1 << cpu % 32:x}" + ",00000000" * (cpu // 32)


class Quota:
    """A control group that may use the CPU for 20 ms in every 100 ms."""

    MOUNTS = {
        "/sys/fs/cgroup/cpu": {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "20000"},
        "/sys/fs/cgroup": {"cpu.max": "20000 100000"},
    }

    def __init__(self):
        for mount, settings in self.MOUNTS.items():
            self.folder = os.path.join(mount, f"punctual-causes-{os.getpid()}")
            try:
                os.mkdir(self.folder)
            except OSError:
                continue
            try:
                for name, text in settings.items():
                    with open(os.path.join(self.folder, name), "w") as file:
                        file.write(text)
                return
            except OSError:
                os.rmdir(self.folder)
        raise FileNotFoundError("no control group with a CPU quota")

    def join(self):
        with open(os.path.join(self.folder, "cgroup.procs"), "w") as file:
            file.write(str(os.getpid()))

    def stat(self):
        """Returns the file that counts how often the group was throttled."""
        return os.path.join(self.folder, "cpu.stat")

    def remove(self):
        for _ in range(100):
            try:
                return os.rmdir(self.folder)
            except OSError:
                time.sleep(0.05)


def truths(text):
    found = []
    for line in text.splitlines():
        parts = line.split("\t")
        if len(parts) == 5 and parts[3].isdigit() and parts[4].isdigit():
            found.append((parts[0], parts[1], parts[2], int(parts[3]), int(parts[4])))
    return found


def watched(command, budget_ns, folder, options, **how):
    """Runs the program while it is watched. Returns its truths, and the recording."""
    out = os.path.join(folder, "truths")
    with open(out, "w") as file:
        program = subprocess.Popen(command, stdout=file, start_new_session=True, **how)
    try:
        # Each run begins with another cause.
        time.sleep(random.uniform(0.3, 1.3))
        explain = [
            options.punctual, "--store", os.path.join(folder, "store.db"), "explain",
            "--pid", str(program.pid), "-q", "--json", "--budget", f"{budget_ns}ns",
            "-D", f"{options.seconds}s",
        ]
        explain += ["--detail", "full"] if options.detail == "full" else []
        env = dict(os.environ, XDG_STATE_HOME=folder)
        began = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        done = subprocess.run(explain, env=env, capture_output=True, text=True)
        ended = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    finally:
        # The program, and the processes that it forked.
        kill_group(program.pid)
        program.wait()
    if done.returncode != 0:
        raise ChildProcessError(f"explain: exit code {done.returncode}: {done.stderr}")
    with open(out) as file:
        told = [one for one in truths(file.read()) if began <= one[3] and one[4] <= ended]
    return told, json.loads(done.stdout)


class Row:
    def __init__(self):
        self.induced = self.over = self.explained = 0
        self.alike = self.unknown = self.accused = 0
        self.named = self.main = self.strict = self.exact = 0
        self.errors, self.wrong = [], []


def sums(shares, fits):
    return sum(share["ns"] for share in shares if fits(share))


def resembled(outlier, explanation):
    """Returns the explained outlier that one of the light stage resembles."""
    for one in explanation.get("resemblances", []):
        if one["number"] == outlier["number"]:
            return [other for other in explanation["outliers"] if other["number"] == one["outlier"]]
    return []


def compare(row, truth, outlier, explanation):
    """Compares the shares of a job with the program's figure."""
    cause, kind, who, begin, end = truth
    took = end - begin
    shares = outlier["blame"]["shares"]

    # In the light stage, the softirq that completes requests is named instead of the disk.
    whos = (who, "softirq BLOCK") if cause == "fsync" else (who,)

    def fits(share):
        return share["kind"] == kind and share["who"].startswith(whos)

    def in_call(share):
        # A disk that is fast, or a thread that completes its requests, are parts of the call.
        is_call = share["kind"] == "system_call" and share["who"] == "fsync"
        return fits(share) or is_call or share["kind"] in ("device", "waiting")

    found = sums(shares, fits)
    largest = max(shares, key=lambda share: share["ns"])
    if found == 0:
        alike = resembled(outlier, explanation)
        if any(fits(share) for one in alike for share in one["blame"]["shares"]):
            row.alike += 1
            return
        if cause in ("fsync", "fault"):
            # The program's figure contains the times in which the thread is runnable.
            others = [share for share in shares if share["kind"] not in RUNNABLE]
            largest = max(others, key=lambda share: share["ns"], default=largest)
        row.unknown += largest["kind"] in UNKNOWN and not alike
        accused = largest["kind"] not in UNKNOWN or bool(alike)
        row.accused += accused
        # Accusations are shown first.
        row.wrong.insert(0 if accused else len(row.wrong), (truth, outlier))
        return
    row.named += 1
    row.main += fits(largest)
    ours = in_call if cause == "fsync" else fits
    found = sums(shares, ours)
    kinds = NOT_SEEN_BY_THE_CLOCK | (RUNNABLE if cause in OF_MANY_SLEEPS else set())
    on_top = sums(shares, lambda share: not ours(share) and share["kind"] in kinds)
    allowed = max(took / 10, 20_000)
    exact = found <= took + allowed and found + on_top + allowed >= took
    row.strict += abs(found - took) <= allowed
    row.exact += exact
    row.errors.append((found - took) / took)
    if not exact:
        row.wrong.append((truth, outlier))


def job_of(truth, outliers):
    """Returns the job of the main thread that contains the middle of the induced delay."""
    middle = (truth[3] + truth[4]) // 2
    for outlier in outliers:
        due = outlier["monotonic_ns"]
        if outlier["thread"] == 0 and due <= middle <= due + outlier["latency_ns"]:
            return outlier
    return None


def judge(rows, told, recording, budget_ns):
    outliers = recording["explanation"]["outliers"]
    release = recording["explanation"]["jobs"]["threads"][0]["release"]
    if release is None or (release["call"], release["object"]) != RELEASE:
        print(f"wrong release wait: {release}")
    for truth in told:
        row = rows.setdefault(truth[0], Row())
        took = truth[4] - truth[3]
        row.induced += 1
        outlier = job_of(truth, outliers)
        if outlier is not None and took <= budget_ns and 2 * took < outlier["latency_ns"]:
            continue
        row.over += outlier is not None or took > budget_ns
        if outlier is not None:
            row.explained += 1
            compare(row, truth, outlier, recording["explanation"])


def show(rows, causes, verbose):
    columns = ["induced", "over", "explained", "named", "alike", "unknown", "accused"]
    columns += ["main", "strict", "exact"]
    print(f"{'cause':10}" + "".join(f"{name:>10}" for name in columns) + f"{'error':>9}")
    for cause in causes:
        row = rows.get(cause, Row())
        error = f"{statistics.median(row.errors):+.1%}" if row.errors else "-"
        figures = "".join(f"{getattr(row, name):>10}" for name in columns)
        print(f"{cause:10}{figures}{error:>9}")
    total = {name: sum(getattr(row, name) for row in rows.values()) for name in columns}
    print(f"{'all':10}" + "".join(f"{total[name]:>10}" for name in columns))
    for cause in causes if verbose else []:
        for truth, outlier in rows.get(cause, Row()).wrong[:3]:
            shares = sorted(outlier["blame"]["shares"], key=lambda share: -share["ns"])
            named = [f"{one['ns'] / 1e3:.0f} us {one['kind']} {one['who']}" for one in shares[:4]]
            took = (truth[4] - truth[3]) / 1e3
            print(f"\n{cause}: {took:.0f} us {truth[1]} {truth[2]}, but {'; '.join(named)}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--causes", nargs="+", choices=CAUSES, default=CAUSES)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each run (default: 1.5)")
    parser.add_argument("--detail", choices=["full", "windows"], default="full")
    parser.add_argument("--verbose", action="store_true", help="show wrong explanations")
    default = os.path.join(ROOT, "target", "dist", "punctual")
    parser.add_argument("--punctual", default=default)
    options = parser.parse_args()
    if not os.access(options.punctual, os.X_OK):
        sys.exit(f"{options.punctual} is missing: cargo build --profile dist")
    missing = [tool for tool in ("cc", "unshare", "ip") if not shutil.which(tool)]
    if missing:
        sys.exit(f"missing programs: {', '.join(missing)}")
    options.punctual = os.path.abspath(options.punctual)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    own_namespace()
    cpu = max(os.sched_getaffinity(0))
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "jobs")
        subprocess.run(["cc", "-O1", "-pthread", "-o", program, SOURCE], check=True)
        began = os.getloadavg()[0]
        ways = [cause for cause in options.causes if cause not in ("quota", "flood")]
        network = ["unshare", "--net", "--mount", "sh", "-c", IN_OWN_NETWORK, cpu_mask(cpu)]
        command = [program, str(cpu), folder]
        together = [ways] if options.detail == "full" else [[way] for way in ways]
        for of_run in [some for some in together if some] * options.runs:
            told, recording = watched([*command, *of_run], BUDGET_NS, folder, options)
            judge(rows, told, recording, BUDGET_NS)
        if "flood" in options.causes:
            told, recording = watched([*network, *command, "flood"], BUDGET_NS, folder, options)
            judge(rows, told, recording, BUDGET_NS)
        if "quota" in options.causes:
            try:
                group = Quota()
            except FileNotFoundError as error:
                print(f"SKIP quota: {error}", file=sys.stderr)
            else:
                try:
                    told, recording = watched(
                        [program, str(cpu), folder, "quota", group.stat()], QUOTA_BUDGET_NS,
                        folder, options, preexec_fn=group.join,
                    )
                    judge(rows, told, recording, QUOTA_BUDGET_NS)
                finally:
                    group.remove()
    ended = os.getloadavg()[0]
    print(
        f"{options.runs} runs of {options.seconds} s, detail {options.detail}, "
        f"load average {began:.1f} to {ended:.1f}"
    )
    show(rows, options.causes, options.verbose)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Overhead of watching a server: redis, nginx and PostgreSQL under load, in alternating runs.

    sudo benches/watched.py                        # all servers that are installed
    sudo benches/watched.py --servers redis --pairs 10 --seconds 10
    sudo benches/watched.py --ways none light --punctual target/debug/punctual

Each round runs the load once in each way, in a rotating order:

    none     without an observer
    light    punctual explain --pid, default: light stage, windows of the full stage
    full     punctual explain --pid --detail full
    floor    only the tracepoints sys_enter and sys_exit enabled, for a trace that records nothing:
             the least that any observer of all system calls costs
    perf     perf sched record
    offcpu   bpftrace: time off CPU of the server's threads

Prints for each way the median of the rounds, and the median of the ratios to `none` of the same
round: requests per second, p99, CPU time of the server and of the whole machine per request, the run
time of the observer's BPF programs (kernel.bpf_stats_enabled, restored at the end) and the CPU time
of its threads per request, and both together as a share of the CPU time of server and clients, which
includes the BPF programs. On a busy machine, compare this share instead of the throughput. For
punctual, also prints jobs, outliers by stage, and the share of time in the full stage.

Goals of `light`: throughput at least 0.98 and p99 at most 1.05 of `none`, BPF programs and observer
at most 2.5% of server and clients, and at most half of the cost of `perf` and `offcpu`.

Uses own ports and folders, and stops all servers. Needs root and `cargo build --profile dist`.
"""

import argparse
import glob
import json
import os
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from free_port import free_port
from own_tracefs import TRACING, own_namespace

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STATS = "/proc/sys/kernel/bpf_stats_enabled"
TICK = 1 / os.sysconf("SC_CLK_TCK")


def run(*command, **options):
    return subprocess.run(
        command, check=True, capture_output=True, text=True, **options
    ).stdout


def until(done, seconds=20):
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise TimeoutError("the server did not start")
        time.sleep(0.05)


def connects(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


class Redis:
    needs = ["redis-server", "redis-benchmark"]

    def __init__(self, folder):
        self.port = free_port()
        self.server = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
            + ["--dir", folder],
            stdout=subprocess.DEVNULL,
        )
        until(lambda: connects(self.port))
        self.per_second = 20_000

    def pids(self):
        return [self.server.pid]

    def load(self, seconds):
        """Returns requests, and p99 in ms."""
        count = int(self.per_second * seconds)
        began = time.monotonic()
        out = run(
            "redis-benchmark", "-p", str(self.port), "-n", str(count), "-c", "20", "-t", "set", "--csv"
        )
        self.per_second = count / (time.monotonic() - began)
        fields = out.splitlines()[1].replace('"', "").split(",")
        return count, float(fields[6])

    def stop(self):
        self.server.terminate()
        self.server.wait()


class Nginx:
    needs = ["nginx", "ab"]

    def __init__(self, folder):
        self.port = free_port()
        path = os.path.join(folder, "nginx.conf")
        with open(os.path.join(folder, "page"), "w") as file:
            file.write("x" * 512)
        os.chmod(folder, 0o755)
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
        with open(path, "w") as file:
            file.write(
                f"worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/error;\n"
                f"events {{}}\nhttp {{ access_log off; {temporary} "
                f"server {{ listen 127.0.0.1:{self.port}; root {folder}; }} }}\n"
            )
        self.server = subprocess.Popen(["nginx", "-p", folder, "-c", path])
        until(lambda: connects(self.port))
        self.per_second = 10_000

    def pids(self):
        children = run("pgrep", "-P", str(self.server.pid)).split()
        return [int(child) for child in children]

    def load(self, seconds):
        count = int(self.per_second * seconds)
        began = time.monotonic()
        url = f"http://127.0.0.1:{self.port}/page"
        out = run("ab", "-q", "-k", "-c", "20", "-n", str(count), url)
        self.per_second = count / (time.monotonic() - began)
        return count, float(re.search(r" 99%\s+(\d+)", out)[1])

    def stop(self):
        self.server.terminate()
        self.server.wait()


class Postgres:
    needs = ["pgbench"]

    def __init__(self, folder):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
        if not found:
            raise FileNotFoundError("initdb")
        bin_folder = os.path.dirname(found[-1])
        self.port, self.folder = free_port(), folder
        shutil.chown(folder, "postgres")
        self.env = dict(os.environ, PGHOST=folder, PGPORT=str(self.port), PGUSER="postgres")
        as_user = dict(user="postgres", cwd=folder, env=self.env)
        data = os.path.join(folder, "data")
        run(os.path.join(bin_folder, "initdb"), "-D", data, "-A", "trust", **as_user)
        self.server = subprocess.Popen(
            [os.path.join(bin_folder, "postgres"), "-D", data, "-p", str(self.port)]
            + ["-k", folder, "-c", "listen_addresses="],
            stderr=subprocess.DEVNULL,
            **as_user,
        )
        ready = ["pg_isready", "-q"]
        until(lambda: subprocess.run(ready, env=self.env).returncode == 0)
        run("pgbench", "-i", "-s", "5", "-q", "postgres", env=self.env)

    def pids(self):
        return [self.server.pid]

    def watched(self):
        """The processes of clients come and go, so all of them are watched by name."""
        return ["--comm", "postgres"]

    def load(self, seconds):
        command = ["pgbench", "-S", "-n", "-c", "4", "-T", str(int(seconds)), "-l"]
        prefix = os.path.join(self.folder, "latency")
        out = run(*command, f"--log-prefix={prefix}", "postgres", env=self.env)
        count = int(re.search(r"actually processed: (\d+)", out)[1])
        times = []
        for path in glob.glob(prefix + "*"):
            with open(path) as file:
                times.extend(int(line.split()[2]) for line in file)
            os.remove(path)
        times.sort()
        return count, times[int(len(times) * 0.99)] / 1_000

    def stop(self):
        self.server.send_signal(signal.SIGINT)
        self.server.wait()


SERVERS = {"redis": Redis, "nginx": Nginx, "postgres": Postgres}


def cpu_of(pids):
    """Returns the CPU time of processes and their ended children, in seconds."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += sum(int(fields[place]) for place in (11, 12, 13, 14))
    return total * TICK


def cpu_of_children():
    """Returns the CPU time of all ended children, such as the clients, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def cpu_of_threads(pid):
    """Returns the CPU time of the threads of a running process, in seconds. It is exact, unlike the
    ticks of /proc/PID/stat, and excludes children."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat") if pid else []:
        try:
            with open(path) as file:
                total += int(file.read().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            # The thread has ended in the meantime.
            continue
    return total / 1e9


def cpu_of_machine():
    with open("/proc/stat") as file:
        fields = [int(field) for field in file.readline().split()[1:]]
    return (sum(fields[:8]) - fields[3] - fields[4]) * TICK


def bpf_time(pid):
    """Returns the run time of the BPF programs of a process, by program ID, in ns."""
    times = {}
    for path in glob.glob(f"/proc/{pid}/fdinfo/*") if pid else []:
        try:
            with open(path) as file:
                fields = dict(line.split(":\t", 1) for line in file if ":\t" in line)
        except FileNotFoundError:
            # The process has closed the file in the meantime.
            continue
        if "run_time_ns" in fields:
            times[fields["prog_id"].strip()] = int(fields["run_time_ns"])
    return times


class Watcher:
    def __init__(self, way, server, folder, arguments):
        self.way, self.output, self.floor = way, None, None
        self.process = None
        pids = server.pids()
        chosen = getattr(server, "watched", lambda: ["--pid", ",".join(map(str, pids))])()
        if way in ("light", "full"):
            command = [arguments.punctual, "--store", os.path.join(folder, "store.db")]
            command += ["explain", *chosen, "--budget", arguments.budget, "-D", "forever", "-q"]
            command += ["--json"] + (["--detail", "full"] if way == "full" else [])
            self.output = open(os.path.join(folder, f"{way}.json"), "w+")
            # The server's user owns `folder`, and punctual trusts no state below such a folder.
            self.state = tempfile.TemporaryDirectory()
            env = dict(os.environ, XDG_STATE_HOME=self.state.name)
            self.process = subprocess.Popen(command, stdout=self.output, env=env)
        elif way == "perf":
            data = os.path.join(folder, "perf.data")
            command = ["perf", "sched", "record", "-o", data, "sleep", "1000"]
            self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        elif way == "offcpu":
            filters = "||".join(f"args->prev_pid=={pid}" for pid in pids)
            script = (
                f"tracepoint:sched:sched_switch {{ if ({filters}) "
                "{ @off[args->prev_pid] = nsecs; } $since = @off[args->next_pid]; "
                "if ($since) { @us = hist((nsecs - $since) / 1000); "
                "delete(@off[args->next_pid]); } }"
            )
            self.process = subprocess.Popen(["bpftrace", "-e", script], stdout=subprocess.DEVNULL)
        elif way == "floor":
            self.floor = f"{TRACING}/instances/watched-bench-{os.getpid()}"
            os.mkdir(self.floor)
            for name, value in (("tracing_on", "0"), ("events/raw_syscalls/enable", "1")):
                with open(os.path.join(self.floor, name), "w") as file:
                    file.write(value)

    def stop(self):
        """Returns the recording, if there is one."""
        if self.floor:
            os.rmdir(self.floor)
        if self.process:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()
        if not self.output:
            return None
        self.output.seek(0)
        text = self.output.read()
        return json.loads(text) if text else None


def is_there(way):
    need = {"perf": "perf", "offcpu": "bpftrace"}.get(way)
    if way == "floor":
        return os.path.isdir(f"{TRACING}/instances")
    return need is None or shutil.which(need) is not None


def measure(way, server, folder, arguments):
    watcher = Watcher(way, server, folder, arguments)
    observer = watcher.process.pid if watcher.process else None
    try:
        # The release wait is found in this time. All ways rest equally, because a server answers
        # more slowly after a pause.
        time.sleep(arguments.rest)
        server.load(arguments.rest)
        if watcher.process and watcher.process.poll() is not None:
            return None, None
        pids, began = server.pids(), time.monotonic()
        own, machine, programs = cpu_of(pids), cpu_of_machine(), bpf_time(observer)
        clients, observed = cpu_of_children(), cpu_of_threads(observer)
        count, p99 = server.load(arguments.seconds)
        took = time.monotonic() - began
        observed = cpu_of_threads(observer) - observed
        clients = cpu_of_children() - clients
        own, machine = cpu_of(pids) - own, cpu_of_machine() - machine
        after = bpf_time(observer)
    finally:
        recording = watcher.stop()
    spent = sum(ns - programs.get(number, 0) for number, ns in after.items())
    return {
        "requests/s": count / took,
        "p99 ms": p99,
        "server us/request": own / count * 1e6,
        "machine us/request": machine / count * 1e6,
        "BPF us/request": spent / 1e3 / count,
        "observer us/request": observed / count * 1e6,
        "(BPF+observer)/(server+client) %": (spent / 1e9 + observed) / (own + clients) * 100,
    }, recording


def stages(recordings):
    outliers = [one["explanation"]["outliers"] for one in recordings]
    light = sum(outlier.get("light_stage", False) for all in outliers for outlier in all)
    full = sum(len(all) for all in outliers) - light
    jobs = sum(
        thread["jobs"] for one in recordings for thread in one["explanation"]["jobs"]["threads"]
    )
    lost = sum(one["explanation"]["events_lost"] for one in recordings)
    windows = [
        (one["explanation"]["jobs"]["windows"], one["duration_ns"]) for one in recordings
    ]
    parts = [found["watched_ns"] / ns if found else 1.0 for found, ns in windows]
    return (
        f"jobs {jobs}, stored outliers: light stage {light}, full stage {full}; events lost {lost}; "
        f"{statistics.median(parts):.1%} of the time in the full stage"
    )


def compare(name, arguments):
    with tempfile.TemporaryDirectory() as folder:
        server = SERVERS[name](folder)
        ways = [way for way in arguments.ways if is_there(way)]
        for way in arguments.ways:
            if way not in ways:
                print(f"SKIP {way}: its program or tracefs is missing", file=sys.stderr)
        results, recordings = {way: [] for way in ways}, {way: [] for way in ways}
        try:
            server.load(2)
            for turn in range(arguments.pairs):
                # Slow changes of the machine affect all ways equally.
                place = turn % len(ways)
                for way in ways[place:] + ways[:place]:
                    found, recording = measure(way, server, folder, arguments)
                    if found is None:
                        print(f"SKIP {way}: the observer has ended", file=sys.stderr)
                        ways = [one for one in ways if one != way]
                        continue
                    results[way].append(found)
                    recordings[way].extend([recording] if recording else [])
        finally:
            server.stop()
    load = os.getloadavg()[0]
    print(f"{name}: {arguments.pairs} rounds of {arguments.seconds} s; load average {load:.1f}")
    for figure in results[ways[0]][0]:
        for way in ways:
            seen = [found[figure] for found in results[way]]
            line = f"  {figure:32} {way:7} {statistics.median(seen):12.3f}"
            if "none" in results and way != "none":
                pairs = zip(results[way], results["none"])
                both = [(one[figure], other[figure]) for one, other in pairs if other[figure]]
                if both:
                    ratio = statistics.median(one / other for one, other in both)
                    more = statistics.median(one - other for one, other in both)
                    line += f"   x{ratio:.3f} {more:+.3f}"
            print(line)
    for way in ways:
        if recordings[way]:
            print(f"  {way}: {stages(recordings[way])}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--servers", nargs="+", choices=SERVERS, default=list(SERVERS))
    ways = ["none", "light", "full", "floor", "perf", "offcpu"]
    parser.add_argument("--ways", nargs="+", choices=ways, default=ways)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rest", type=float, default=3)
    parser.add_argument("--budget", default="5ms")
    default = os.path.join(ROOT, "target", "dist", "punctual")
    parser.add_argument("--punctual", default=default)
    arguments = parser.parse_args()
    if not os.access(arguments.punctual, os.X_OK):
        sys.exit(f"{arguments.punctual} is missing: cargo build --profile dist")
    # Also stop the servers and restore the setting after SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    own_namespace()
    with open(STATS) as file:
        before = file.read()
    try:
        with open(STATS, "w") as file:
            file.write("1")
        for name in arguments.servers:
            missing = [tool for tool in SERVERS[name].needs if not shutil.which(tool)]
            if missing:
                print(f"SKIP {name}: {', '.join(missing)} is missing", file=sys.stderr)
                continue
            try:
                compare(name, arguments)
            except FileNotFoundError as error:
                print(f"SKIP {name}: {error}", file=sys.stderr)
    finally:
        with open(STATS, "w") as file:
            file.write(before)


if __name__ == "__main__":
    main()

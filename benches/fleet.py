#!/usr/bin/env python3
"""Measures the cost of a fleet, for the figures in docs/scale.md.

    cargo build --profile bench -p punctual-serve --example fleet
    benches/fleet.py [--seconds 60] [--windows 1] [--login] [--recording FILE]
        [--collector PROGRAM] [MACHINES...]

Starts a separate PostgreSQL server (as the user nobody if run by root) with a new database
for each number of machines (100 1000 10000 by default), a collector, and the generator
crates/fleet/serve/examples/fleet.rs. Prints the output of the generator, the growth of the
database, and the load average. On a busy machine, only the CPU time of a request is
meaningful. --collector selects another program as the server instead of the generator: a
punctual-server, which also judges series.
"""

import argparse
import glob
import os
import shutil
import socket
import subprocess
import tempfile
import time

from free_port import free_port

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FLEET = os.path.join(ROOT, "target/release/examples/fleet")
NOBODY = 65534


class Database:
    """A server on a socket in a temporary folder. Syncs are enabled, as usual."""

    def __init__(self):
        self.bin = max(glob.glob("/usr/lib/postgresql/*/bin"))
        self.folder = tempfile.mkdtemp(prefix="punctual-fleet-")
        self.data = os.path.join(self.folder, "data")
        self.user = {}
        if os.geteuid() == 0:
            os.chown(self.folder, NOBODY, NOBODY)
            self.user = {"user": NOBODY, "group": NOBODY}
        self.run("initdb", "--auth=trust", "--username=punctual", "--encoding=UTF8",
                 "--locale=C", "-D", self.data)
        log = open(os.path.join(self.folder, "log"), "w")
        self.server = subprocess.Popen(
            [os.path.join(self.bin, "postgres"), "-D", self.data, "-k", self.folder,
             "-c", "listen_addresses=", "-c", "shared_buffers=256MB"],
            stdout=log, stderr=log, cwd=self.folder, **self.user)
        while subprocess.run([os.path.join(self.bin, "pg_isready"), "-q", "-h", self.folder]).returncode:
            time.sleep(0.2)

    def run(self, program, *words):
        return subprocess.run([os.path.join(self.bin, program), *words], check=True,
                              cwd=self.folder, capture_output=True, text=True, **self.user).stdout

    def sql(self, name, text):
        return self.run("psql", "-XqAt", "-U", "punctual", "-h", self.folder, "-d", name, "-c", text).strip()

    def url(self, name):
        return f"postgres://punctual@{self.folder.replace('/', '%2F')}/{name}"

    def end(self):
        self.server.terminate()
        self.server.wait()
        shutil.rmtree(self.folder)


def size(database, name, table):
    sql = f"SELECT coalesce(sum(pg_total_relation_size(relid)), 0) FROM pg_partition_tree('{table}')"
    return int(database.sql(name, sql))


def one(database, machines, options):
    name = f"fleet{machines}"
    database.sql("postgres", f"CREATE DATABASE {name}")
    address = f"127.0.0.1:{free_port()}"
    if options.collector:
        command = [options.collector, "run", "--store", database.url(name), "--listen", address]
    else:
        command = [FLEET, "collector", database.url(name), address]
    environment = dict(os.environ, PUNCTUAL_FLEET_WINDOWS=str(options.windows))
    if options.login:
        tokens = os.path.join(database.folder, f"tokens{machines}")
        command += [tokens, str(machines)]
        environment["PUNCTUAL_FLEET_TOKENS"] = tokens
    if options.recording:
        environment["PUNCTUAL_FLEET_RECORDING"] = options.recording
    collector = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        # Enrolling thousands takes a while.
        for _ in range(3000):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", int(address.rsplit(":")[-1]))) == 0:
                    break
            time.sleep(0.1)
        print(f"== {machines} machines, load average {os.getloadavg()[0]:.1f}", flush=True)
        subprocess.run([FLEET, address, str(machines), str(options.runs), str(options.seconds),
                        str(options.connections), str(collector.pid), str(database.server.pid)],
                       check=True, env=environment)
        with open(f"/proc/{collector.pid}/status") as status:
            peak = next(line for line in status if line.startswith("VmHWM")).split()[1]
        recordings = int(database.sql(name, "SELECT count(*) FROM recording"))
        windows = int(database.sql(name, "SELECT count(*) FROM wake_window"))
        print(f"database: {size(database, name, 'recording') / max(recordings, 1) / 1e3:.1f} kB a recording"
              f" ({recordings}), {size(database, name, 'wake_window') / max(windows, 1):.0f} bytes a window"
              f" ({windows}); collector: at most {int(peak) / 1e3:.0f} MB;"
              f" load average {os.getloadavg()[0]:.1f}", flush=True)
    finally:
        collector.terminate()
        collector.wait()
    database.sql("postgres", f"DROP DATABASE {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machines", nargs="*", type=int, default=[100, 1000, 10000])
    parser.add_argument("--seconds", type=int, default=60, help="length of the windows")
    parser.add_argument("--windows", type=int, default=1, help="windows of a request")
    parser.add_argument("--runs", type=int, default=2, help="recordings of a machine")
    parser.add_argument("--connections", type=int, default=8, help="connections of the generator")
    parser.add_argument("--login", action="store_true", help="machines log in by tokens")
    parser.add_argument("--recording", help="JSON of the recording that all are made of")
    parser.add_argument("--collector", help="program that serves")
    options = parser.parse_args()
    database = Database()
    try:
        for machines in options.machines:
            one(database, machines, options)
    finally:
        database.end()


if __name__ == "__main__":
    main()

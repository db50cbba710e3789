#!/usr/bin/env python3
"""Experiments on redis, PostgreSQL and a loop in C++, with settings of known effect and with none.

    sudo benches/applications.py                        # eight settings, 20 null pairs: 40 min
    sudo benches/applications.py --planted keys index --null 2

Each experiment is one command:

    punctual experiment --comm redis-server --budget 1ms --a 'SERVER' --b 'SERVER WITH SETTING' ...

The commands start server and client anew in each block, so each block is another process. In a null
pair, both commands are the same. Prints a row for each experiment: the expected and the found
effect on the share of late jobs, and the interval. Exits with 1 if more than 5% of the claims are
wrong (a claim in the wrong direction, or any difference of a null pair), or if a planted effect is
not found. Needs root, redis-server, PostgreSQL and g++. All servers use the loopback interface.
"""

import argparse
import glob
import json
import os
import pwd
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REDIS_PORT, POSTGRES_PORT = 16379, 15432
OWN = [sys.executable, os.path.abspath(__file__)]


def redis_client(keys):
    """Sends 300 SETs a second, and with `keys` also 10 times KEYS."""
    for _ in range(200):
        try:
            server = socket.create_connection(("127.0.0.1", REDIS_PORT))
            break
        except OSError:
            time.sleep(0.02)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for first in range(0, 40_000, 1_000):
        server.sendall(b"".join(b"SET key:%d %d\r\n" % (n, n) for n in range(first, first + 1_000)))
        answer(server, 5 * 1_000)
    at = time.monotonic()
    for turn in range(10**9):
        at += 1 / 300
        time.sleep(max(0, at - time.monotonic()))
        if keys and turn % 30 == 0:
            server.sendall(b"EVAL \"return #redis.call('keys','*7')\" 0\r\n")
            while not server.recv(65_536).endswith(b"\r\n"):
                pass
        server.sendall(b"SET key:%d %d\r\n" % (turn % 40_000, turn))
        answer(server, 5)


def answer(server, size):
    while size > 0:
        size -= len(server.recv(65_536))


class Applications:
    """The commands that start the applications."""

    def __init__(self, folder, disk):
        self.folder = folder
        self.disk = disk
        self.loop = os.path.join(folder, "punctual-loop")
        source = os.path.join(ROOT, "benches", "applications.cpp")
        subprocess.run(["g++", "-O1", "-std=c++17", "-pthread", "-o", self.loop, source], check=True)
        tools = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
        self.tools = tools[-1] if tools else os.path.dirname(shutil.which("postgres"))
        self.database = os.path.join(folder, "database")
        os.chmod(folder, 0o755)
        os.mkdir(self.database, 0o700)
        os.chown(self.database, pwd.getpwnam("postgres").pw_uid, -1)
        self.run("initdb", "-D", self.database, "-A", "trust")
        server = subprocess.Popen(["sh", "-c", f"exec {self.server()}"], cwd="/",
                                  stderr=subprocess.DEVNULL)
        try:
            at = ["-q", "-h", "127.0.0.1", "-p", str(POSTGRES_PORT)]
            self.run("pg_isready", *at, tries=100)
            self.run("psql", *at, "-c",
                     "create table rows as select n as id, n as value from generate_series(1, 50000) "
                     "n; create index on rows (id); create table log (id int); analyze rows")
        finally:
            server.terminate()
            server.wait()

    def run(self, tool, *words, tries=1):
        """Runs a tool of PostgreSQL until it succeeds."""
        command = [*self.as_postgres(), f"{self.tools}/{tool}", *words]
        while subprocess.run(command, stdout=subprocess.DEVNULL, cwd="/").returncode != 0:
            tries -= 1
            if tries <= 0:
                raise ChildProcessError(shlex.join(command))
            time.sleep(0.05)

    def as_postgres(self):
        return ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]

    def server(self, *settings):
        words = [*self.as_postgres(), f"{self.tools}/postgres", "-D", self.database, "-h", "127.0.0.1",
                 "-p", str(POSTGRES_PORT), "-k", "", "-c", "autovacuum=off", *settings]
        return shlex.join(words)

    def redis(self, *settings, nice=-10, keys=False, hog=False):
        folder = os.path.join(self.disk, "redis")
        words = ["nice", "-n", str(nice), "redis-server", "--port", str(REDIS_PORT), "--save", "",
                 "--bind", "127.0.0.1", "--dir", folder, *settings]
        client = [*OWN, "client", *(["keys"] if keys else [])]
        parts = [f"rm -rf {folder}; mkdir {folder};", in_background(["taskset", "-c", "0", *words]),
                 in_background(["nice", "-n", "-10", *client])]
        if hog:
            parts.append(in_background(["taskset", "-c", "0", "sh", "-c", "while :; do :; done"]))
        return " ".join(parts)

    def postgres(self, *settings, script="select value from rows where id = :n"):
        path = os.path.join(self.folder, f"script-{abs(hash(script))}")
        with open(path, "w") as file:
            file.write(f"\\set n random(1, 50000)\n{script};\n")
        client = [f"{self.tools}/pgbench", "-n", "-h", "127.0.0.1", "-p", str(POSTGRES_PORT), "-U",
                  "postgres", "-c", "2", "-T", "600", "-R", "100", "-f", path, "postgres"]
        ready = f"{self.tools}/pg_isready -q -h 127.0.0.1 -p {POSTGRES_PORT}"
        # Processes of the server before it can keep its memory for a moment.
        return (f"until {self.server(*settings)}; do sleep 0.1; done >/dev/null 2>&1 & "
                f"until {ready}; do sleep 0.05; done; {in_background(client)}")

    def cpp(self, *words):
        return in_background(["nice", "-n", "-10", "taskset", "-c", "0", self.loop, *words])


def in_background(words):
    return f"{shlex.join(words)} >/dev/null 2>&1 &"


INSERT = "insert into log values (:n)"


def planted(made):
    """Returns the experiments: name, thread, budget, baseline, changed, expected effect."""
    appending = ["--appendonly", "yes", "--appendfsync"]
    no_index = [word for way in ("indexscan", "indexonlyscan", "bitmapscan")
                for word in ("-c", f"enable_{way}=off")]
    delay = ["-c", "commit_delay=10000", "-c", "commit_siblings=0"]
    redis, postgres, loop = ("redis-server", "1ms"), ("postgres", "2ms"), ("punctual-loop", "1500us")
    return [
        ("fsync", *redis, made.redis(*appending, "no"), made.redis(*appending, "always"), "worse"),
        ("keys", *redis, made.redis(), made.redis(keys=True), "worse"),
        ("nice", *redis, made.redis(nice=5, hog=True), made.redis(hog=True), "better"),
        ("index", *postgres, made.postgres(), made.postgres(*no_index), "worse"),
        ("delay", *postgres, made.postgres(script=INSERT), made.postgres(*delay, script=INSERT),
         "worse"),
        ("async", *postgres, made.postgres(*delay, script=INSERT),
         made.postgres(*delay, "-c", "synchronous_commit=off", script=INSERT), "better"),
        ("fresh", *loop, made.cpp(), made.cpp("fresh"), "worse"),
        ("priority", *loop, made.cpp("disturbed"), made.cpp(), "better"),
    ]


def experiment(options, folder, number, one):
    """Runs an experiment. Returns its JSON, or the last message."""
    _, comm, budget, a, b, _ = one
    command = [options.punctual, "--store", os.path.join(folder, "store.db"), "experiment",
               "--comm", comm, "--budget", budget, "--a", a, "--b", b, "--pairs", str(options.pairs),
               "--block", options.block, "--wash-out", options.wash_out, "--seed", str(number),
               "--json", "-q"]
    if options.verbose:
        print(shlex.join(command), flush=True)
    env = {**os.environ, "PUNCTUAL_LOCKS": os.path.join(folder, "locks"), "XDG_STATE_HOME": folder}
    os.makedirs(env["PUNCTUAL_LOCKS"], exist_ok=True)
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode not in (0, 3, 4):
        return None, done.stderr.strip()
    return json.loads(done.stdout), ""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--planted", nargs="*", help="names of the settings (default: all)")
    parser.add_argument("--null", type=int, default=20, help="number of null pairs (default: 20)")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--block", default="2s")
    parser.add_argument("--wash-out", default="1s")
    parser.add_argument("--punctual", default=os.path.join(ROOT, "target", "dist", "punctual"))
    parser.add_argument("--verbose", action="store_true", help="print the commands")
    options = parser.parse_args()
    if options.what[:1] == ["client"]:
        return redis_client("keys" in options.what)
    options.punctual = os.path.abspath(options.punctual)
    # In memory, because a server that was killed syncs its whole folder when it starts.
    with (tempfile.TemporaryDirectory(dir="/dev/shm") as folder,
          tempfile.TemporaryDirectory() as disk):
        every = planted(Applications(folder, disk))
        asked = [one for one in every if options.planted is None or one[0] in options.planted]
        # The null pairs take the baselines in turn.
        null = [(f"null {n + 1}", *every[n % len(every)][1:4], every[n % len(every)][3], "none")
                for n in range(options.null)]
        print("| setting | application | late a | late b | difference | interval | effect | expected "
              "| took | load |\n|---|---|---|---|---|---|---|---|---|---|")
        wrong = missed = claims = refused = 0
        for number, one in enumerate(asked + null, 1):
            begun = time.monotonic()
            found, why = experiment(options, folder, number, one)
            took, expected = time.monotonic() - begun, one[5]
            if found is None:
                print(f"| {one[0]} | {one[1]} | refused: {why} | | | | | {expected} | {took:.0f} s "
                      f"| {os.getloadavg()[0]:.1f} |", flush=True)
                refused += 1
                missed += expected != "none"
                continue
            result = found["results"][0]
            effect = result["effect"]
            claims += 1
            wrong += effect in ("better", "worse") and effect != expected
            missed += expected != "none" and effect != expected
            shares = [f"{median / 1e4:.2f}%" for median in result["medians"]]
            unit = (lambda value: f"{100 * value:+.0f}%") if result["relative"] else (
                lambda value: f"{value / 1e4:+.2f} points")
            ends = [unit(result[end]) if result[end] is not None else "-" for end in ("low", "high")]
            print(f"| {one[0]} | {one[1]} | {shares[0]} | {shares[1]} | {unit(result['difference'])} "
                  f"| {' to '.join(ends)} | {effect} | {expected} | {took:.0f} s "
                  f"| {os.getloadavg()[0]:.1f} |", flush=True)
        print(f"{wrong} wrong claims in {claims} experiments; {len(asked) - missed} of {len(asked)} "
              f"planted effects found; {refused} refused")
        sys.exit(0 if wrong <= 0.05 * claims and not missed else 1)


if __name__ == "__main__":
    main()

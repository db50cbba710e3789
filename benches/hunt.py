#!/usr/bin/env python3
"""Searches of the worst load, against planted traps that need two loads at once.

    sudo benches/hunt.py                                # six traps, 20 min each
    sudo benches/hunt.py --traps lock pool --hunt 4m

Builds and runs benches/hunt_traps/traps.c, a program that makes periods late only while two resources
are busy at once, such as the network and the disk. For each trap, runs

    punctual check --hunt TIME --period 1ms --budget 500us

and, for comparison, the same check with the load `farm`, and with the two loads that the trap needs,
which shows that the trap works on this machine. Prints a row for each trap: the loads that the trap
needs, the confirmed mix, whether it contains one load of each needed kind, whether it contains others,
and the late periods with the mix, with the needed loads, with the farm load and without load. The farm
load counts as *found* if it makes more than 0.5% of the periods late, and three times as many as no load.

Exits with 1 if fewer than five of six traps are found. A search of less than 20 min tries fewer mixes.
Needs root and cc. The traps look at counters of the whole machine, so other programs can trigger them.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from process_group import kill_group

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCE = os.path.join(ROOT, "benches", "hunt_traps", "traps.c")

# Loads that make a resource of traps.c busy.
NETWORK, DISK, FORKS = {"network"}, {"disk"}, {"fork"}
# Each new process has page faults.
FAULTS = {"faults", "fork", "memory"}
TRAPS = {
    "lock": (DISK, NETWORK),
    "reaper": (FORKS, DISK),
    "pool": (FAULTS, NETWORK),
    "copy": ({"faults"}, FORKS),
    "dirty": (FAULTS, DISK),
    "starved": (NETWORK, FORKS),
}
LOOP = ["--period", "1ms", "--budget", "500us"]


def checked(options, folder, *arguments):
    """Runs a check, and returns its JSON."""
    command = [options.punctual, "--store", os.path.join(folder, "store.db"), "check", "-q", "--json",
               *LOOP, *arguments]
    env = {**os.environ, "XDG_STATE_HOME": folder}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode not in (0, 3, 4):
        raise ChildProcessError(f"{' '.join(command)}: {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def share(late, periods):
    return f"{late / max(periods, 1):.3%}"


def needed(loads, trap):
    """Returns whether the loads contain one of each needed kind, and whether they contain others."""
    kinds = [load.partition(":")[0] for load in loads]
    both = any(one in kinds and other in kinds and one != other
               for one in TRAPS[trap][0] for other in TRAPS[trap][1])
    return both, both and len(kinds) > 2


def measure(options, folder, trap):
    """Returns the row of a trap, and whether its loads were found."""
    hunt = checked(options, folder, "--hunt", options.hunt, "-D", "20s")
    worst = hunt["worst"]
    loads = worst["loads"] if worst else []
    both, more = needed(loads, trap)
    own = [min(kinds) for kinds in TRAPS[trap]]
    own = checked(options, folder, *[word for load in own for word in ("--load", load)], "-D", options.farm)
    own = own["conditions"][-1]
    farm = checked(options, folder, "--load", "farm", "-D", options.farm)
    idle, loaded = farm["conditions"][0], farm["conditions"][-1]
    [calm, busy] = [one["late"] / max(one["periods"], 1) for one in (idle, loaded)]
    needs = " + ".join("/".join(sorted(kinds)) for kinds in TRAPS[trap])
    of_mix = share(worst["late"], worst["periods"]) if worst else "-"
    row = [
        trap, needs, " + ".join(loads) or "none confirmed",
        ("yes, and more" if more else "yes") if both else "no", of_mix,
        share(own["late"], own["periods"]),
        "found" if busy > 0.005 and busy > 3 * calm else "not found", f"{busy:.3%}", f"{calm:.3%}",
        str(hunt["tried"]), f"{hunt['took_ns'] / 60e9:.1f} min", f"{os.getloadavg()[0]:.1f}",
    ]
    return row, both


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traps", nargs="+", choices=TRAPS, default=list(TRAPS))
    parser.add_argument("--hunt", default="20m", help="time of each search")
    parser.add_argument("--farm", default="60s", help="time with the needed loads, with the farm load, and without load")
    parser.add_argument("--punctual", default=os.path.join(ROOT, "target", "dist", "punctual"))
    options = parser.parse_args()
    options.punctual = os.path.abspath(options.punctual)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    names = ["trap", "needs", "confirmed mix", "needed loads in it", "late with it",
             "late with the needed loads", "farm load",
             "late with farm", "late without load", "mixes", "search", "load average"]
    print(f"| {' | '.join(names)} |")
    print("|" + "---|" * len(names), flush=True)
    found = 0
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        program = os.path.join(folder, "traps")
        subprocess.run(["cc", "-O1", "-pthread", "-o", program, SOURCE], check=True)
        for trap in options.traps:
            cpu = str(max(os.sched_getaffinity(0)))
            child = subprocess.Popen([program, cpu, trap], stdout=subprocess.PIPE,
                                     start_new_session=True)
            try:
                if child.stdout.readline() != b"ready\n":
                    raise ChildProcessError(f"the trap {trap} did not start")
                # Its copies and syncs have been timed without load.
                time.sleep(1)
                row, both = measure(options, folder, trap)
            finally:
                kill_group(child.pid)
                child.wait()
            found += both
            print(f"| {' | '.join(row)} |", flush=True)
    print(f"{found} of {len(options.traps)} traps are found")
    sys.exit(0 if found >= len(options.traps) * 5 / 6 - 1e-9 else 1)


if __name__ == "__main__":
    main()

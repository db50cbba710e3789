#!/usr/bin/env python3
"""Apache Otava's change points in the simulated series of docs/simulation.md.

    cargo xtask simulate 2100 --only series > series.json
    python3 -m venv otava && otava/bin/pip install apache-otava==0.8.0
    otava/bin/python benches/change_points.py series.json

Prints the same table as `cargo xtask simulate 2100 --only trend`, which uses punctual's
scan, for the same series. Otava uses its defaults: windows of 50 runs, p below 0.001, any
magnitude.
"""

import json
import statistics
import sys
from importlib.metadata import version

from otava.analysis import compute_change_points

# As in crates/analysis/stats/examples/simulate/trends.rs.
STEP = 112
LEAST_RUNS = 4
# Fewer series than there, because Otava takes milliseconds for each prefix.
AFTER_EACH = 5


def points(runs):
    found, _ = compute_change_points([float(count) for count in runs])
    return [int(point.index) for point in found]


def after_each(runs):
    """Counts new change points in a series that is judged after each run."""
    known, alarms = [], 0
    for end in range(2 * LEAST_RUNS, len(runs) + 1):
        for at in points(runs[:end]):
            if all(abs(at - other) > LEAST_RUNS for other in known):
                alarms += 1
                known.append(at)
    return alarms


def row(name, mean, made):
    series = len(made["null"])
    false_points = sum(len(points(runs)) for runs in made["null"]) / series
    of_a_spike = sum(len(points(runs)) for runs in made["spiked"]) / series
    off = []
    for runs in made["stepped"]:
        near = [at for at in points(runs) if abs(at - STEP) <= 2 * LEAST_RUNS]
        off += [abs(at - STEP) for at in near[:1]]
    judged = made["null"][:AFTER_EACH]
    alarms = sum(after_each(runs) for runs in judged) / len(judged)
    late = f"{statistics.median_high(off)}" if off else "-"
    found = f"{100 * len(off) / series:.0f}%"
    print(f"| {name} | {mean} | {false_points:.2f} | {of_a_spike:.2f} | {found} | {late} | {alarms:.2f} |", flush=True)


def main():
    conditions = {}
    with open(sys.argv[1], encoding="utf-8") as lines:
        for line in lines:
            one = json.loads(line)
            made = conditions.setdefault((one["counts"], one["mean"]), {})
            made.setdefault(one["what"], []).append(one["runs"])
    print(f"\n## Apache Otava {version('apache-otava')}\n")
    print("| counts | mean | false points | of a spike | step found | runs off | after each run |")
    print("|---|---|---|---|---|---|---|")
    for (name, mean), made in conditions.items():
        row(name, mean, made)


main()

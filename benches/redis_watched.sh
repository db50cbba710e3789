#!/bin/sh
# Overhead of watching redis-server: requests per second and p99 of redis-benchmark, in
# alternating runs. Compares four ways: without watching; with `punctual explain --pid` on
# the server; with `--cost`, which watches in time windows; and with only the system call
# tracepoints enabled, for a trace that records nothing. The last is a lower bound for any
# observer that needs them all the time.
#
# usage: redis_watched.sh [ROUNDS] [PUNCTUAL]
# environment: CLIENTS (20), REQUESTS (500000), COST (1%)
# Prints each run with the load average of the machine, the medians, and the medians of the
# ratios in each round. For each way of watching also prints: outliers, unmarked outliers
# caused by this program, waits without end, lost events.
#
# If watched all the time, 5 to 9% of the requests of 50 clients are later than the unwatched
# p99. p99 therefore rises by 5% if about 3% of the time under load is watched, and by 14% at
# 8%.
#
# Goals with --cost: throughput at least 0.98 and p99 at most 1.05 of unwatched. Goals in all
# cases: no unmarked outlier caused by this program, no wait without end.
#
# Needs redis-server and redis-benchmark, python3, `cargo build --profile dist`, and the right
# to trace. The tracepoints alone need a mounted tracefs.
set -eu
rounds="${1:-8}"
punctual="${2:-target/dist/punctual}"
requests="${REQUESTS:-500000}"
clients="${CLIENTS:-20}"
cost="${COST:-1%}"
folder="$(mktemp -d)"
for tool in redis-server redis-benchmark python3 "$punctual"; do
    command -v "$tool" > /dev/null || { echo "SKIP: no $tool" >&2; exit 0; }
done

redis-server --port 0 --unixsocket "$folder/socket" --save '' --dir "$folder" > "$folder/log" &
server=$!
floor=/sys/kernel/tracing/instances/punctual-floor
[ -d "${floor%/*}" ] || echo "SKIP tracepoints alone: tracefs is not mounted" >&2
trap 'kill "$server" 2> /dev/null; wait "$server" 2> /dev/null; rm -rf "$folder"
    [ ! -d "$floor" ] || rmdir "$floor"' EXIT
until redis-benchmark -s "$folder/socket" -n 1 -t ping -q > /dev/null 2>&1; do sleep 0.1; done

# Prints requests per second, p99 in ms and the load average of one run. Before each run the
# server is idle for the same time, watched or not, because it serves up to a tenth less after
# a pause. Finding the release wait takes the same time.
load() {
    sleep 4
    redis-benchmark -s "$folder/socket" -n "$requests" -c "$clients" -t set --csv |
        awk -F, -v busy="$(cut -d' ' -f1 /proc/loadavg)" \
            'NR == 2 { gsub(/"/, ""); print $2, $7, busy }'
}

unwatched() {
    echo "$1 no $(load)"
}

# Runs with the tracepoints alone. Removing the instance disables them.
floor() {
    mkdir "$floor" 2> /dev/null || return 0
    echo 0 > "$floor/tracing_on"
    echo 1 > "$floor/events/raw_syscalls/enable"
    echo "$1 floor $(load)"
    rmdir "$floor"
}

# ROUND WAY OPTIONS
watched_as() {
    round="$1" way="$2"
    shift 2
    XDG_STATE_HOME="$folder" "$punctual" --store "$folder/store.db" explain --pid "$server" \
        --budget 500us -D forever -q --json "$@" > "$folder/$way.$round.json" \
        2> "$folder/$way.$round.log" &
    watcher=$!
    echo "$watcher" > "$folder/$way.$round.pid"
    echo "$round $way $(load)"
    kill -INT "$watcher"
    wait "$watcher" || true
}

watched() {
    watched_as "$1" watched
}

limited() {
    watched_as "$1" limited --cost "$cost"
}

echo "round watched requests_per_s p99_ms load_average" | tee "$folder/table"
load > /dev/null
for round in $(seq "$rounds"); do
    # Reverse the order in every other round, so that slow changes affect all ways equally.
    if [ $((round % 2)) -eq 0 ]; then
        limited "$round"; watched "$round"; floor "$round"; unwatched "$round"
    else
        unwatched "$round"; floor "$round"; watched "$round"; limited "$round"
    fi
done | tee -a "$folder/table"
python3 - "$folder" "$cost" << 'END'
import glob, json, statistics, sys

LIMITED = f"watched with --cost {sys.argv[2]}"

runs = {}
for line in open(f"{sys.argv[1]}/table").read().splitlines()[1:]:
    round, watched, rate, p99, _ = line.split()
    runs.setdefault(int(round), {})[watched] = (float(rate), float(p99))
for name, place in (("requests/s", 0), ("p99 ms", 1)):
    print(f"{name}: unwatched {statistics.median(run['no'][place] for run in runs.values()):.3f}")
    for way, title in (
        ("watched", "watched"),
        ("limited", LIMITED),
        ("floor", "tracepoints alone"),
    ):
        rounds = [run for run in runs.values() if way in run]
        if rounds:
            seen = statistics.median(run[way][place] for run in rounds)
            ratio = statistics.median(run[way][place] / run["no"][place] for run in rounds)
            print(f"{name}: {title} {seen:.3f}, median ratio {ratio:.3f}")
for way, title in (("watched", "watched"), ("limited", LIMITED)):
    total = dict(outliers=0, explained=0, marked=0, unmarked=0, without_end=0, lost=0)
    part = []
    for file in glob.glob(f"{sys.argv[1]}/{way}.*.json"):
        recording = json.load(open(file))
        found = recording["explanation"]
        windows = found["jobs"]["windows"]
        if windows:
            part.append(windows["watched_ns"] / recording["duration_ns"])
        total["outliers"] += found["seen"]
        total["explained"] += found["explained"]
        total["without_end"] += found["waits_without_end"]
        total["lost"] += found["events_lost"]
        total["marked"] += found["jobs"]["caused_by_observer"]
        # Other users may run this program as well.
        pid = open(file.replace(".json", ".pid")).read().strip()
        for outlier in found["outliers"]:
            blame = outlier["blame"]
            ours = f"-{pid}" in blame["culprit"]
            total["unmarked"] += ours and "by punctual caused this delay" not in blame["sentence"]
    counts = ", ".join(f"{name} {count}" for name, count in total.items())
    seen = f"; watched {statistics.median(part):.0%} of the time" if part else ""
    print(f"{title}: {counts}{seen}")
END

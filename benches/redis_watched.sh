#!/bin/sh
# What watching costs redis-server: requests per second and p99 of redis-benchmark, with
# and without `punctual explain --pid` on the server, in alternating pairs of runs.
#
# usage: redis_watched.sh [PAIRS] [PUNCTUAL]
# Prints each run with the load average of the machine, then the medians, the median of the
# ratios of the pairs, and of all watched runs: outliers, those caused by this program
# without a mark, waits without end, lost events.
# Goals: throughput at least 0.98, p99 at most 1.05 of unwatched; no outlier of this
# program unmarked, no wait without end. Needs redis-server and redis-benchmark, python3,
# and the right to trace.
set -eu
pairs="${1:-8}"
punctual="${2:-target/release/punctual}"
requests="${REQUESTS:-300000}"
folder="$(mktemp -d)"
for tool in redis-server redis-benchmark python3 "$punctual"; do
    command -v "$tool" > /dev/null || { echo "SKIP: no $tool" >&2; exit 0; }
done

redis-server --port 0 --unixsocket "$folder/socket" --save '' --dir "$folder" > "$folder/log" &
server=$!
trap 'kill "$server" 2> /dev/null; wait "$server" 2> /dev/null; rm -rf "$folder"' EXIT
until redis-benchmark -s "$folder/socket" -n 1 -t ping -q > /dev/null 2>&1; do sleep 0.1; done

# Prints requests per second, p99 in ms and the load average of one run.
load() {
    redis-benchmark -s "$folder/socket" -n "$requests" -c 20 -t set --csv |
        awk -F, -v busy="$(cut -d' ' -f1 /proc/loadavg)" \
            'NR == 2 { gsub(/"/, ""); print $2, $7, busy }'
}

watched() {
    XDG_STATE_HOME="$folder" "$punctual" --store "$folder/store.db" explain --pid "$server" \
        --budget 500us -D forever -q --json > "$folder/watched.$1.json" \
        2> "$folder/watched.$1.log" &
    watcher=$!
    echo "$watcher" > "$folder/watched.$1.pid"
    sleep 2
    echo "$1 yes $(load)"
    kill -INT "$watcher"
    wait "$watcher" || true
}

echo "pair watched requests_per_s p99_ms load_average" | tee "$folder/table"
load > /dev/null
for pair in $(seq "$pairs"); do
    # In turns, and each first in every other pair: what changes slowly is the same for
    # both.
    if [ $((pair % 2)) -eq 0 ]; then
        watched "$pair"
        echo "$pair no $(load)"
    else
        echo "$pair no $(load)"
        watched "$pair"
    fi
done | tee -a "$folder/table"
python3 - "$folder" << 'END'
import glob, json, statistics, sys

runs = {}
for line in open(f"{sys.argv[1]}/table").read().splitlines()[1:]:
    pair, watched, rate, p99, _ = line.split()
    runs.setdefault(int(pair), {})[watched] = (float(rate), float(p99))
pairs = [run for run in runs.values() if len(run) == 2]
for name, place in (("requests/s", 0), ("p99 ms", 1)):
    plain = statistics.median(pair["no"][place] for pair in pairs)
    seen = statistics.median(pair["yes"][place] for pair in pairs)
    ratio = statistics.median(pair["yes"][place] / pair["no"][place] for pair in pairs)
    print(f"{name}: unwatched {plain:.3f}, watched {seen:.3f}, median ratio {ratio:.3f}")
total = dict(outliers=0, explained=0, marked=0, unmarked=0, without_end=0, lost=0)
for file in glob.glob(f"{sys.argv[1]}/watched.*.json"):
    found = json.load(open(file))["explanation"]
    total["outliers"] += found["seen"]
    total["explained"] += found["explained"]
    total["without_end"] += found["waits_without_end"]
    total["lost"] += found["events_lost"]
    total["marked"] += found["jobs"]["caused_by_observer"]
    for outlier in found["outliers"]:
        blame = outlier["blame"]
        # Others may run this program, too.
        pid = open(file.replace(".json", ".pid")).read().strip()
        ours = f"punctual-{pid}" in blame["culprit"]
        total["unmarked"] += ours and "This program caused it" not in blame["sentence"]
print(", ".join(f"{name} {count}" for name, count in total.items()))
END

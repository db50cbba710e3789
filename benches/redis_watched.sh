#!/bin/sh
# What watching costs redis-server: requests per second and p99 of redis-benchmark, with
# and without `punctual explain --pid` on the server, in alternating runs.
#
# usage: redis_watched.sh [RUNS] [PUNCTUAL]
# Goals: throughput at least 0.98, p99 at most 1.05 of unwatched; no outlier of this
# program unmarked. Needs redis-server and redis-benchmark, and the right to trace.
set -eu
runs="${1:-5}"
punctual="${2:-target/release/punctual}"
port=16379
folder="$(mktemp -d)"
for tool in redis-server redis-benchmark "$punctual"; do
    command -v "$tool" > /dev/null || { echo "SKIP: no $tool" >&2; exit 0; }
done

redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$folder" > "$folder/log" &
server=$!
trap 'kill "$server" 2> /dev/null; wait "$server" 2> /dev/null; rm -rf "$folder"' EXIT
until redis-benchmark -p "$port" -n 1 -t ping -q > /dev/null 2>&1; do sleep 0.1; done

# Prints requests per second and p99 in ms of one run.
load() {
    redis-benchmark -p "$port" -n 300000 -c 20 -t set --csv |
        awk -F, 'NR == 2 { gsub(/"/, ""); print $2, $7 }'
}

# Named for those who keep figures: one line a run.
echo "run watched requests_per_s p99_ms"
for run in $(seq "$runs"); do
    # In turns, so that what changes slowly is the same for both.
    echo "$run no $(load)"
    XDG_STATE_HOME="$folder" "$punctual" explain --pid "$server" --budget 500us -D forever \
        -q --json > "$folder/watched.$run.json" 2> "$folder/watched.$run.log" &
    watcher=$!
    sleep 2
    echo "$run yes $(load)"
    kill -INT "$watcher"
    wait "$watcher" || true
    awk '/"(seen|explained|events_lost|waits_without_end|caused_by_observer)":/ {
        gsub(/[",:]/, ""); printf "# %s %s\n", $1, $2 }' "$folder/watched.$run.json"
done | tee "$folder/table"
awk '$2 == "no" { n++; rate += $3; p99 += $4 }
     $2 == "yes" { m++; watched_rate += $3; watched_p99 += $4 }
     END { if (n && m) printf "throughput %.3f, p99 %.3f of unwatched\n",
           watched_rate / m / (rate / n), (watched_p99 / m) / (p99 / n) }' "$folder/table"

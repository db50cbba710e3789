#!/bin/sh
# Repeatedly writes the latest result of a series to a feature file of Node Feature Discovery.
# Needs only a POSIX shell, awk and date, such as those of busybox.
#
# SERIES   series of the plan (default: node)
# MAX_AGE  older results produce no labels (default: 3h)
# CLASSES  limits of the classes in microseconds, ascending (default: 50 100 200 500 1000)
# EVERY    seconds between two updates (default: 60); `once` updates once and exits
# FILE     feature file
set -eu

series=${SERIES:-node}
max_age=${MAX_AGE:-3h}
classes=${CLASSES:-50 100 200 500 1000}
every=${EVERY:-60}
file=${FILE:-/etc/kubernetes/node-feature-discovery/features.d/punctual}
# Node Feature Discovery skips hidden files, so it never reads an incomplete file.
hidden=$(dirname "$file")/.$(basename "$file").new
ns=feature.node.kubernetes.io

# Prints the outcome and the maximum in ns of the latest finished run. No text in the JSON,
# such as a label, can begin a line.
latest() {
    found=$(punctual list --series "$series" --since "$max_age" --limit 5 --json) || return 1
    printf '%s\n' "$found" | awk '
        { name = $1; value = $2; gsub(/[",:]/, "", name); gsub(/[",]/, "", value) }
        name == "completion" { finished = (value == "finished") }
        name == "outcome" { outcome = value }
        name == "max_ns" && finished && !done { print outcome, value; done = 1 }'
}

update() {
    result=$(latest) || return 1
    outcome=${result%% *} max_ns=${result##* }
    case $max_ns in
    '' | *[!0-9]*)
        # No recent run, or a maximum that is not known: no label is better than a wrong one.
        rm -f "$file"
        return 0
        ;;
    esac
    max_us=$(((max_ns + 999) / 1000))
    class=
    for limit in $classes; do
        if [ -z "$class" ] && [ "$max_us" -le "$limit" ]; then class=${limit}us; fi
        last=$limit
    done
    # The labels expire if the pod no longer runs.
    until=$(date -u -d "@$(($(date +%s) + 600))" +%Y-%m-%dT%H:%M:%SZ)
    {
        echo "# +expiry-time=$until"
        echo "$ns/punctual.max-us=$max_us"
        echo "$ns/punctual.class=${class:-over-${last}us}"
        echo "$ns/punctual.requirement=$outcome"
    } >"$hidden"
    mv "$hidden" "$file"
}

trap 'exit 0' TERM INT
while :; do
    if ! update; then echo "node-labels: the result cannot be read" >&2; fi
    if [ "$every" = once ]; then exit 0; fi
    # A shell handles a signal only after its command has ended.
    sleep "$every" &
    wait $!
done

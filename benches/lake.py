#!/usr/bin/env python3
"""Tests that independent engines get the dashboard's numbers from an exported lake.

    cargo build -p punctual-server
    benches/lake.py SERVER STORE [--by day]

Exports STORE (a file, or postgres://...) into a temporary folder, serves it, asks the API
for all recordings, and asks DuckDB (the Python package duckdb) and Spark (pyspark, and a
Java runtime) for the same numbers of each machine. Prints SKIP for an engine that is not
installed. Exits with 1 if numbers differ.
"""

import argparse
import importlib.util
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

# For each machine: recordings, samples, missed periods, the largest latency, the sum of all
# p99, and samples in the buckets.
RUNS = ("SELECT machine_name, count(*) AS runs, sum(recorded) AS recorded, sum(missed) AS missed,"
        " max(max_ns) AS max_ns, sum(p99_ns) AS p99_ns FROM {runs} GROUP BY machine_name")
BUCKETS = ("SELECT machine_name, sum(n) AS n FROM"
           " (SELECT machine_name, {unnest} AS n FROM {histograms}) AS b GROUP BY machine_name")


def duckdb_rows(lake):
    if not importlib.util.find_spec("duckdb"):
        print("SKIP duckdb: the Python package duckdb is not installed")
        return None
    import duckdb
    table = "read_parquet('" + lake + "/%s/**/*.parquet', hive_partitioning=true)"
    runs = duckdb.sql(RUNS.format(runs=table % "runs")).fetchall()
    buckets = BUCKETS.format(histograms=table % "histograms", unnest="unnest(count)")
    return joined(runs, duckdb.sql(buckets).fetchall())


def spark_rows(lake):
    if not importlib.util.find_spec("pyspark") or not shutil.which("java"):
        print("SKIP spark: pyspark or a Java runtime is not installed")
        return None
    from pyspark.sql import SparkSession
    spark = (SparkSession.builder.master("local[2]").appName("punctual")
             .config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
             .config("spark.log.level", "ERROR").config("spark.driver.host", "127.0.0.1")
             .getOrCreate())
    for name in ("runs", "histograms"):
        spark.read.parquet(f"{lake}/{name}").createOrReplaceTempView(name)
    runs = [tuple(row) for row in spark.sql(RUNS.format(runs="runs")).collect()]
    buckets = spark.sql(BUCKETS.format(histograms="histograms", unnest="explode(count)")).collect()
    spark.stop()
    return joined(runs, [tuple(row) for row in buckets])


def joined(runs, buckets):
    buckets = dict(buckets)
    return {row[0]: tuple(int(cell) for cell in (*row[1:], buckets[row[0]])) for row in runs}


def dashboard_rows(server, store):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{one.getsockname()[1]}"
    process = subprocess.Popen([server, "--store", store, "run", "--listen", address],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def get(path):
        with urllib.request.urlopen(f"http://{address}{path}") as answer:
            return json.load(answer)

    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://{address}/ready")
                break
            except OSError:
                time.sleep(0.1)
        rows, after = {}, ""
        while after is not None:
            page = get(f"/v1/recordings?limit=1000{after and '&after=' + after}")
            for one in page["recordings"]:
                row = rows.setdefault(one["machine"], [0, 0, 0, 0, 0, 0])
                row[0] += 1
                row[1] += one["recorded"]
                row[2] += one["missed"] or 0
                row[3] = max(row[3], one["max_ns"] or 0)
                row[4] += one["p99_ns"] or 0
                row[5] += one["recorded"]
            after = page["next"]
        known = {one["name"]: one["recordings"] for one in get("/v1/machines")}
        for name, row in rows.items():
            assert known[name] == row[0], f"{name}: {known[name]} on the overview, {row[0]} listed"
        return {name: tuple(row) for name, row in rows.items()}
    finally:
        process.terminate()
        process.wait()


def different(found, expected):
    others = [name for name in {*found, *expected} if found.get(name) != expected.get(name)]
    name = min(others)
    return f"DIFFERENT in {len(others)}: {name} is {found.get(name)} instead of {expected.get(name)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("store")
    parser.add_argument("--by", choices=["machine", "day"], default="machine")
    options = parser.parse_args()
    expected = dashboard_rows(options.server, options.store)
    failed = False
    with tempfile.TemporaryDirectory(prefix="punctual-lake-") as lake:
        said = subprocess.run([options.server, "--store", options.store, "export", "--by",
                               options.by, "--to", f"file://{lake}"], check=True, capture_output=True, text=True)
        print(said.stdout.strip())
        for name, rows in (("duckdb", duckdb_rows), ("spark", spark_rows)):
            begun = time.monotonic()
            found = rows(lake)
            if found is None:
                continue
            same = found == expected
            failed |= not same
            print(f"{name}: {len(found)} machines in {time.monotonic() - begun:.1f} s,",
                  "as on the dashboard" if same else different(found, expected))
    sys.exit(failed)


if __name__ == "__main__":
    main()

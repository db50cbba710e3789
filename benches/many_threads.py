#!/usr/bin/env python3
"""Time and memory of punctual explain --pid for an application with many threads.

    sudo benches/many_threads.py
    sudo benches/many_threads.py --threads 1000 --period 0.2 --runs 5

Each thread of the application wakes once in each period. Prints for each run the
length of the run, the time until the command ended, its memory and the number of
jobs.

Needs root, cc and `cargo build --profile dist`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from peak_memory import peak_kib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PUNCTUAL = os.path.join(ROOT, "target", "dist", "punctual")

SOURCE = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long count, period_ns;

static void *run(void *number) {
  struct timespec due;
  clock_gettime(CLOCK_MONOTONIC, &due);
  /* Spreads the threads over the period. */
  long long ns = due.tv_nsec + (long long)period_ns * (long)number / count;
  for (;;) {
    due.tv_sec += ns / 1000000000;
    due.tv_nsec = ns % 1000000000;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
    ns = due.tv_nsec + (long long)period_ns;
  }
  return NULL;
}

int main(int argc, char **argv) {
  pthread_attr_t small;
  pthread_t thread;
  (void)argc;
  count = atol(argv[1]);
  period_ns = atol(argv[2]);
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 16384);
  for (long number = 1; number < count; number++)
    if (pthread_create(&thread, &small, run, (void *)number) != 0) {
      perror("pthread_create");
      return 1;
    }
  puts("ready");
  fflush(stdout);
  pause();
}
"""


def watched(command):
    """Runs a command. Returns its output, its time in seconds and its peak memory in KiB."""
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    parts = []
    reader = threading.Thread(target=lambda: parts.append(process.stdout.read()))
    reader.start()
    peak = 0
    while process.poll() is None:
        peak = max(peak, peak_kib(process.pid) or 0)
        time.sleep(0.02)
    reader.join()
    if process.returncode != 0:
        sys.exit(f"punctual ended with {process.returncode}")
    return parts[0], time.monotonic() - begun, peak


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--threads", type=int, default=15_000)
    options.add_argument("--period", type=float, default=2.0, help="in seconds")
    options.add_argument("--seconds", type=int, default=10)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--punctual", default=PUNCTUAL)
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        source, program = os.path.join(scratch, "many.c"), os.path.join(scratch, "many")
        with open(source, "w") as file:
            file.write(SOURCE)
        subprocess.run(["cc", "-O1", "-pthread", "-o", program, source], check=True)
        period = str(int(options.period * 1e9))
        times, peaks = [], []
        for _ in range(options.runs):
            application = subprocess.Popen(
                [program, str(options.threads), period], stdout=subprocess.PIPE
            )
            try:
                if application.stdout.readline() != b"ready\n":
                    sys.exit("the kernel refuses that many threads")
                text, took, peak = watched(
                    [options.punctual, "--store", "none", "explain", "--pid",
                     str(application.pid), "-D", f"{options.seconds}s", "-q", "--json"]
                )
            finally:
                application.kill()
                application.wait()
            recording = json.loads(text)
            jobs = sum(thread["recorded"] for thread in recording["threads"])
            length = recording["duration_ns"] / 1e9
            print(f"{took:.1f} s for a run of {length:.1f} s, {peak / 1024:.0f} MiB, {jobs} jobs")
            times.append(took)
            peaks.append(peak)
        middle = statistics.median
        print(f"median {middle(times):.1f} s, {middle(peaks) / 1024:.0f} MiB")


if __name__ == "__main__":
    main()

"""The four plots that people make of latency. Each returns the axes of matplotlib.

Axes show microseconds; the tables have nanoseconds. Samples without a known latency cannot be
drawn: the title of a plot states their number.
"""

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import FixedFormatter, FixedLocator

from ._recording import QUANTILES

_US = 1000


def _not_drawn(table):
    """Returns the number of samples in a histogram that have no bucket."""
    return int(table.loc[table["place"] != "bucket", "count"].sum())


def _title(ax, title, left_out):
    if left_out:
        title += f"\n({left_out:,} samples without a bucket are not drawn)"
    ax.set_title(title)


def _thread_name(recording, place):
    thread = recording.json["threads"][place]
    cpu = thread["cpu"]
    return thread.get("label") or (f"thread {place}" if cpu is None else f"CPU {cpu}")


def histogram(recording, of="samples", ax=None):
    """Draws the number of samples by latency for each thread, both axes logarithmic.

    The buckets are joined to 20 bins in each decade.
    """
    ax = ax or plt.subplots()[1]
    table = recording.histogram(of)
    buckets = table[table["place"] == "bucket"]
    middle = (buckets["lower_ns"] + (buckets["width_ns"] - 1) / 2).astype(float) / _US
    if len(buckets):
        # A latency of 0 has no logarithm.
        middle = middle.clip(lower=0.001)
        first, last = (math.floor(20 * math.log10(one)) for one in (middle.min(), middle.max()))
        edges = 10 ** (np.arange(first, last + 2) / 20)
        for place, one in buckets.groupby("thread"):
            counts, _ = np.histogram(middle[one.index], edges, weights=one["count"].astype(float))
            ax.stairs(counts, edges, label=_thread_name(recording, place))
        ax.legend()
    ax.set(xscale="log", yscale="log", xlabel="latency (µs)", ylabel="samples in a bin")
    ax.set_ylim(bottom=0.8)
    _title(ax, f"Latency of {recording.name}", _not_drawn(table))
    return ax


def over_time(recording, ax=None):
    """Draws the largest latency of each interval over time, for each thread."""
    ax = ax or plt.subplots()[1]
    table = recording.series()
    for place, one in table.groupby("thread"):
        known = one.dropna(subset=["max_ns"])
        seconds = known["start_ns"].astype(float) / 1e9
        largest = known["max_ns"].astype(float) / _US
        ax.plot(seconds, largest, ".-", label=_thread_name(recording, place))
    ax.set(yscale="log", xlabel="time since the start (s)", ylabel="largest latency (µs)")
    title = f"Latency over time of {recording.name}"
    if recording.dropped:
        title += f"\n({recording.dropped:,} samples are missing in the series)"
    ax.set_title(title)
    if ax.lines:
        ax.legend()
    return ax


def percentiles(*recordings, of="samples", ax=None):
    """Draws latency by percentile, all threads together: each step to the right is one more nine.

    A curve ends at the last percentile with a sample expected above it.
    """
    ax = ax or plt.subplots()[1]
    nines = [step / 20 for step in range(1, 121)]
    quantiles = [1 - 10**-nine for nine in nines]
    left_out = 0
    for recording in recordings:
        found = recording.percentiles(quantiles, of, by_thread=False)
        known = found["latency_ns"].notna()
        drawn = [nine for nine, has in zip(nines, known) if has]
        values = found.loc[known, "latency_ns"].astype(float) / _US
        ax.plot(drawn, values, label=recording.name)
        left_out += _not_drawn(recording.histogram(of))
    ax.set(yscale="log", xlabel="percentile", ylabel="latency (µs)")
    ax.xaxis.set_major_locator(FixedLocator([1, 2, 3, 4, 5, 6]))
    ax.xaxis.set_major_formatter(
        FixedFormatter(["90%", "99%", "99.9%", "99.99%", "99.999%", "99.9999%"])
    )
    _title(ax, "Latency by percentile", left_out)
    ax.grid(True, which="major", alpha=0.3)
    ax.legend()
    return ax


def comparison(first, second, of="samples", ax=None):
    """Draws the percentiles and the maxima of two recordings beside each other.

    A percentile that a recording does not determine has no bar. The plot shows no significance:
    `punctual compare` tests whether two recordings differ.
    """
    ax = ax or plt.subplots()[1]
    names = [f"p{100 * quantile:g}" for quantile in QUANTILES] + ["max"]
    table = {}
    for place, recording in enumerate((first, second)):
        found = recording.percentiles(QUANTILES, of, by_thread=False)["latency_ns"].tolist()
        found.append(recording.max_ns(of))
        table[place] = [float("nan") if pd.isna(one) else one / _US for one in found]
    pd.DataFrame(table, index=names).plot.bar(ax=ax, rot=0, logy=True)
    ax.set(ylabel="latency (µs)", title="Percentiles of two recordings")
    ax.legend([first.name, second.name])
    return ax

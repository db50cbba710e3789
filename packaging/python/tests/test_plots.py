import matplotlib

matplotlib.use("Agg")

import math

import matplotlib.pyplot as plt
import pytest

from punctual_pandas import plots


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_histogram_has_a_curve_for_each_thread(idle):
    ax = plots.histogram(idle)
    assert [curve.get_label() for curve in ax.patches] == ["CPU 0", "CPU 1"]
    assert ax.get_yscale() == ax.get_xscale() == "log"
    drawn = sum(curve.get_data().values.sum() for curve in ax.patches)
    assert drawn == idle.threads()["recorded"].sum()


def test_time_plot_reaches_the_maximum(idle):
    ax = plots.over_time(idle)
    largest = max(line.get_ydata().max() for line in ax.lines)
    assert math.isclose(largest, idle.max_ns() / 1000)


def test_percentile_curve_rises_until_supported(idle, loaded):
    ax = plots.percentiles(idle, loaded)
    for line, recording in zip(ax.lines, (idle, loaded)):
        assert (line.get_ydata()[1:] >= line.get_ydata()[:-1]).all()
        # With N samples, the last percentile has about log10(N) nines.
        nines = math.log10(recording.threads()["recorded"].sum())
        assert nines - 0.1 < line.get_xdata()[-1] <= nines


def test_comparison_has_bars_of_both(idle, loaded):
    ax = plots.comparison(idle, loaded)
    first, second = ax.containers
    assert math.isclose(first[-1].get_height(), idle.max_ns() / 1000)
    assert math.isclose(second[-1].get_height(), loaded.max_ns() / 1000)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["idle", "loaded"]


def test_samples_without_latency_are_mentioned(imported):
    assert "53 samples without a bucket" in plots.histogram(imported).get_title()
    assert "53 samples" in plots.percentiles(imported).get_title()
    plots.comparison(imported, imported)
    plots.over_time(imported)

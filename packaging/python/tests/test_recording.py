import copy
import json

import pandas as pd
import pytest

import punctual_pandas as pp
from conftest import DATA
from punctual_pandas._counts import Counts, width_of
from punctual_pandas._recording import _REQUIRED as REQUIRED

FIGURES = {0.5: "p50_ns", 0.9: "p90_ns", 0.99: "p99_ns", 0.999: "p999_ns", 0.9999: "p9999_ns"}


def expected(thread, key):
    value = thread[key]
    return pd.NA if value is None else value


@pytest.mark.parametrize("name", ["idle", "loaded", "imported"])
def test_percentiles_equal_those_of_punctual(name, request):
    recording = request.getfixturevalue(name)
    found = recording.percentiles()
    for row in found.itertuples():
        thread = recording.json["threads"][row.thread]
        assert row.latency_ns is expected(thread, FIGURES[row.quantile]) or (
            row.latency_ns == thread[FIGURES[row.quantile]]
        )
    assert found["latency_ns"].notna().any()


@pytest.mark.parametrize("name", ["idle", "loaded"])
def test_due_percentiles_equal_those_of_punctual(name, request):
    recording = request.getfixturevalue(name)
    found = recording.percentiles(of="due").set_index(["thread", "quantile"])["latency_ns"]
    checked = 0
    for place, thread in enumerate(recording.json["threads"]):
        for quantile, key in FIGURES.items():
            value = thread["due"][key]
            if value is not None:
                assert found[place, quantile] == value
                checked += 1
    assert checked >= 6


def test_histogram_adds_up_to_the_samples(idle):
    counts = idle.histogram().groupby("thread")["count"].sum()
    assert counts.tolist() == idle.threads()["recorded"].tolist()
    due = idle.histogram("due").groupby("thread")["count"].sum()
    threads = idle.threads()
    assert due.tolist() == (threads["recorded"] + threads["missed"]).tolist()
    together = idle.histogram(by_thread=False)
    assert together["count"].sum() == threads["recorded"].sum()


def test_imported_samples_without_row_are_kept(imported):
    table = imported.histogram()
    unplaced = table[table["place"] == "unplaced"]
    assert unplaced["count"].tolist() == [24, 29]
    assert unplaced["lower_ns"].tolist() == [195_000, 195_000]
    assert unplaced["width_ns"].isna().all()
    assert (table.loc[table["place"] == "bucket", "width_ns"] == 1000).all()


def test_unknown_facts_are_missing_values(imported):
    threads = imported.threads()
    assert threads[["expected", "missed", "warm_up", "cpu"]].isna().all(axis=None)
    assert imported.started is pd.NaT
    assert imported.duration_ns is pd.NA
    with pytest.raises(pp.Unknown, match="missed periods"):
        imported.percentiles(of="due")


def test_tables_have_integer_nanoseconds(idle):
    tables = (idle.threads(), idle.histogram(), idle.series(), idle.top_samples())
    for table in tables:
        assert len(table) > 0
        for name in table.columns:
            if name.endswith("_ns"):
                assert table[name].dtype in ("int64", "Int64"), name
    assert str(idle.series()["time"].dt.tz) == "UTC"


def test_series_agrees_with_the_histogram(idle):
    series = idle.series()
    assert series["count"].sum() + idle.dropped == idle.threads()["recorded"].sum()
    assert series["max_ns"].max() == idle.max_ns()
    first = series.iloc[0]
    assert first["time"] == idle.started + pd.Timedelta(first["start_ns"], unit="ns")
    assert (series["min_ns"] <= series["mean_ns"]).all()


def test_largest_samples_come_first(idle):
    top = idle.top_samples()
    assert top["latency_ns"].is_monotonic_decreasing
    assert top["latency_ns"].iloc[0] == idle.max_ns()


def test_probe_tables_become_frames(imported):
    tables = imported.tables()
    assert tables
    for table in imported.json["tables"]:
        assert list(tables[table["name"]].columns) == [one["key"] for one in table["columns"]]


def test_bucket_widths_follow_the_grid():
    edges = [0, 999, 1000, 1010, 9990, 10_000, 99_900, 100_000, 1_000_000, 999_000_000_000]
    widths = [1, 1, 10, 10, 10, 100, 100, 1000, 10_000, 10**9]
    assert [width_of(edge) for edge in edges] == widths


def test_early_samples_rank_below_all_others(idle):
    data = copy.deepcopy(idle.json)
    histogram = data["threads"][0]["histogram"]
    histogram["early"] = histogram["count"] * 3
    table = pp.Recording(data)
    assert table.histogram().iloc[0][["place", "count"]].tolist() == ["early", histogram["early"]]
    data["threads"] = data["threads"][:1]
    # Without missed periods, every due period has a sample.
    data["threads"][0]["missed"] = 0
    data["threads"][0].pop("missed_histogram", None)
    found = pp.Recording(data).percentiles([0.5], of="due")
    assert found["latency_ns"].tolist() == [0]


def test_unknown_lateness_hides_a_percentile(idle):
    data = copy.deepcopy(idle.json)
    thread = data["threads"][0]
    thread.pop("missed_histogram", None)
    thread["missed"] = thread["recorded"]
    found = pp.Recording(data).percentiles([0.1, 0.9], of="due")
    assert found["latency_ns"].isna().tolist()[:2] == [True, True]
    table = pp.Recording(data).histogram("due")
    assert table.loc[table["place"] == "unknown", "count"].tolist() == [thread["recorded"]]


def test_newer_schema_is_refused(idle, tmp_path):
    data = {**idle.json, "schema": 99}
    path = tmp_path / "new.json"
    path.write_text(json.dumps(data))
    with pytest.raises(pp.NewerSchema, match=r"new\.json.*schema 99.*up to 5.*install a newer"):
        pp.read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b"\x00\xff\xfe\x80", "not JSON"),
        (b"T: 0 Min: 3", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "no key 'schema'"),
        (b"17", "no key 'schema'"),
        (b'{"schema": 5, "id": "x"}', "no key 'completion'"),
    ],
)
def test_foreign_files_are_refused(content, message, tmp_path):
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(pp.NotARecording, match=f"foreign: not a recording.*{message}"):
        pp.read(path)


def test_damaged_recordings_never_raise_other_errors(idle):
    """Replaces each value below the first levels, and reads all tables."""
    errors = reached = 0

    def places(value, path, depth):
        if depth and isinstance(value, dict):
            for key in value:
                yield (*path, key)
                yield from places(value[key], (*path, key), depth - 1)
        elif depth and isinstance(value, list) and value:
            yield (*path, 0)
            yield from places(value[0], (*path, 0), depth - 1)

    wanted = ("threads", "series", "top_samples", "tables", "probe", "started", "origin")
    small = copy.deepcopy(idle.json)
    small["threads"] = small["threads"][:1]
    small["series"]["rows"] = small["series"]["rows"][:1]
    small["top_samples"] = small["top_samples"][:1]
    assert pp.Recording(small).max_ns("due") is not pd.NA
    text = json.dumps({key: small.get(key) for key in (*wanted, *REQUIRED)})
    for path in places({key: small.get(key) for key in wanted}, (), 5):
        for wrong in (None, "x", -1, 10**30, [], {}):
            data = json.loads(text)
            at = data
            for step in path[:-1]:
                at = at[step]
            at[path[-1]] = wrong
            try:
                one = pp.Recording(data)
                one.threads(), one.histogram(), one.histogram("due"), one.series()
                one.top_samples(), one.tables(), one.percentiles(), one.max_ns("due"), one.started
                repr(one)
                reached += 1
            except pp.PunctualError:
                errors += 1
    assert errors > 20 and reached > 20


def test_wrong_arguments_are_named(idle):
    with pytest.raises(ValueError, match="of='all'"):
        idle.histogram("all")
    with pytest.raises(ValueError, match="quantile 99"):
        idle.percentiles([99])


def test_inconsistent_counts_are_refused(idle):
    histogram = copy.deepcopy(idle.json["threads"][0]["histogram"])
    histogram["count"] += 1
    with pytest.raises(ValueError, match="the buckets contain"):
        Counts.from_json(histogram)


def test_missing_file_keeps_its_error():
    with pytest.raises(FileNotFoundError):
        pp.read(DATA / "none.json")

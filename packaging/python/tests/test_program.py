import subprocess

import pandas as pd
import pytest

import punctual_pandas as pp
from conftest import DATA


@pytest.fixture(scope="session")
def store(program, tmp_path_factory):
    """A store with a measured recording with samples, and an imported one."""
    path = tmp_path_factory.mktemp("store") / "punctual.db"
    base = [program, "--store", path]
    measure = ["measure", "timer", "-q", "--policy", "other", "--dma-latency", "off"]
    measure += ["-D", "200ms", "--cpus", "0", "--samples", "--label", "own"]
    subprocess.run(base + measure, check=True, capture_output=True)
    subprocess.run([*base, "import", DATA / "imported.json"], check=True, capture_output=True)
    return path


def test_recordings_are_listed(store, program):
    listed = pp.recordings(store, program)
    assert set(listed["probe"]) == {"timer"} or len(listed) == 2
    assert listed["max_ns"].dtype == "Int64"
    own = listed[listed["label"] == "own"].iloc[0]
    assert own["samples"]
    assert pp.load(own["id"], store, program).max_ns() == own["max_ns"]


def test_samples_equal_the_histogram(store, program, tmp_path):
    own = pp.recordings(store, program).set_index("label").loc["own", "id"]
    recording = pp.load(own, store, program)
    samples = pp.load_samples(own, store, program)
    assert len(samples) == recording.threads()["recorded"].sum()
    resolution = recording.json["probe"]["parameters"]["sample_resolution_ns"]
    assert 0 <= recording.max_ns() - samples["latency_ns"].max() < resolution
    for name in ("parquet", "csv"):
        path = tmp_path / f"samples.{name}"
        command = [program, "--store", store, "export", own, "--format", name, "-o", path]
        subprocess.run(command, check=True, capture_output=True)
        read = pp.read_samples(path)
        pd.testing.assert_frame_equal(read, samples)
        if name == "parquet":
            assert read.attrs == {"dropped": 0, "resolution_ns": resolution}
    assert samples.attrs == {"dropped": 0, "resolution_ns": resolution}


def test_lake_has_the_same_figures(store, program, tmp_path):
    url = tmp_path.as_uri() + "/lake"
    command = [program, "--store", store, "export", "--to", url]
    subprocess.run(command, check=True, capture_output=True)
    runs = pp.read_lake(url)
    own = pp.recordings(store, program).set_index("label").loc["own", "id"]
    recording = pp.load(own, store, program)
    row = runs.set_index("recording").loc[own]
    assert row["max_ns"] == recording.max_ns()
    assert row["started"] == recording.started
    buckets = pp.read_lake(tmp_path / "lake", "histograms")
    mine = buckets[buckets["recording"] == own]
    placed = recording.histogram()
    assert mine["bucket_ns"].tolist() == placed["lower_ns"].tolist()
    assert mine["width_ns"].tolist() == placed["width_ns"].tolist()
    assert mine["count"].tolist() == placed["count"].tolist()
    for table in ("top_samples", "facts", "changes"):
        assert "recording" in pp.read_lake(url, table).columns
    some = pp.read_lake(url, filters=[("date", ">", "2999-01-01")])
    assert some.empty
    with pytest.raises(ValueError, match="table 'x': use one of"):
        pp.read_lake(url, "x")
    with pytest.raises(pp.NotARecording, match="no table 'runs'"):
        pp.read_lake(tmp_path / "elsewhere")


def test_recording_that_does_not_exist_is_named(store, program):
    with pytest.raises(pp.ProgramFailed, match="exit code 1.*last~9"):
        pp.load("last~9", store, program)
    imported = pp.read(DATA / "imported.json").id
    with pytest.raises(pp.ProgramFailed, match="samples"):
        pp.load_samples(imported, store, program)
    with pytest.raises(pp.ProgramFailed, match="--json"):
        # A word that looks like an option remains a word.
        pp.load("--json", store, program)


def test_foreign_store_is_named(program, tmp_path):
    path = tmp_path / "foreign.db"
    path.write_text("no database")
    with pytest.raises(pp.ProgramFailed, match="not a punctual store"):
        pp.load(store=path, program=program)


def test_missing_program_is_named(monkeypatch):
    with pytest.raises(pp.ProgramMissing, match="/no/such: .*install punctual"):
        pp.load(program="/no/such")
    monkeypatch.setenv("PUNCTUAL_PROGRAM", "/nor/this")
    with pytest.raises(pp.ProgramMissing, match="/nor/this"):
        pp.recordings()


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"PAR1damaged", b"\xff\x00"])
def test_foreign_sample_files_are_refused(content, tmp_path):
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(pp.NotARecording, match="foreign"):
        pp.read_samples(path)

"""Loads recordings of punctual into pandas.

    import punctual_pandas as pp

    recording = pp.load("last")             # from the store, by the program `punctual`
    recording = pp.read("recording.json")   # from `punctual export --format json`
    recording.threads()                     # one row for each measuring thread
    recording.histogram()                   # one row for each filled bucket
    recording.series()                      # latency over time
    recording.percentiles()

All times and latencies are integers in nanoseconds, in columns whose names end with `_ns`. A value
that is not known is `<NA>` (`NaT` for a date).
"""

from ._errors import (
    NewerSchema,
    NotARecording,
    ProgramFailed,
    ProgramMissing,
    PunctualError,
    Unknown,
)
from ._lake import read_lake
from ._program import load, load_samples, recordings
from ._recording import SCHEMA_VERSION, Recording, read
from ._samples import read_samples

__all__ = [
    "SCHEMA_VERSION",
    "NewerSchema",
    "NotARecording",
    "ProgramFailed",
    "ProgramMissing",
    "PunctualError",
    "Recording",
    "Unknown",
    "load",
    "load_samples",
    "read",
    "read_lake",
    "read_samples",
    "recordings",
]

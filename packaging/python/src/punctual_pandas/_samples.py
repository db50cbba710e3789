"""Every sample of a recording, from the files of `punctual export --format parquet` or `csv`."""

import os
import warnings

import pandas as pd

from ._errors import NotARecording

_TYPES = {"thread": "int64", "cpu": "Int64", "expected_ns": "Int64", "latency_ns": "int64"}


def _checked(found, source):
    missing = [name for name in _TYPES if name not in found.columns]
    if missing:
        raise NotARecording(
            f"{source}: not a file of samples: it has no column {missing[0]!r}; write it with "
            "punctual export --format parquet or csv"
        )
    try:
        return found[list(_TYPES)].astype(_TYPES)
    except (TypeError, ValueError, OverflowError) as error:
        raise NotARecording(f"{source}: {error}") from error


def described(samples, dropped, resolution_ns):
    """Notes what the samples lack, and warns of dropped ones."""
    samples.attrs["dropped"] = dropped
    samples.attrs["resolution_ns"] = resolution_ns
    if dropped:
        warnings.warn(
            f"{dropped:,} samples are missing: the machine was too busy to store them", stacklevel=3
        )


def samples_of_csv(file, source):
    """Reads the text of `punctual export --format csv`."""
    try:
        found = pd.read_csv(file, dtype={"cpu": "Int64", "expected_ns": "Int64"})
    except (ValueError, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise NotARecording(f"{source}: not a file of samples: {error}") from error
    return _checked(found, source)


def read_samples(path):
    """Reads every sample from a file of `punctual export --format parquet` or `csv`.

    `expected_ns` is the due time on the clock of the measurement, and `latency_ns` is negative for
    an early sample. A Parquet file needs the package pyarrow. It also tells how many samples could
    not be stored, in `attrs["dropped"]`, and the step to which latencies are rounded down, in
    `attrs["resolution_ns"]`; a CSV file does not.
    """
    source = os.fspath(path)
    with open(path, "rb") as file:
        if file.read(4) != b"PAR1":
            file.seek(0)
            return samples_of_csv(file, source)
    try:
        found = pd.read_parquet(path)
        about = _metadata(path)
    except (OSError, ValueError) as error:
        raise NotARecording(f"{source}: damaged Parquet file: {error}") from error
    samples = _checked(found, source)
    names = ("punctual.dropped_samples", "punctual.sample_resolution_ns")
    described(samples, *(about.get(name) for name in names))
    return samples


def _metadata(path):
    """Returns the numbers in the metadata of a Parquet file."""
    import pyarrow.parquet

    about = pyarrow.parquet.read_metadata(path).metadata or {}
    texts = ((name.decode(), value.decode()) for name, value in about.items())
    return {name: int(value) for name, value in texts if value.isdigit()}

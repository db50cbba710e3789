"""The recordings of many machines, from the Parquet files of `punctual-server export --to`."""

import os
import urllib.parse

import pandas as pd

from ._errors import NotARecording

_LISTS = ["bucket_ns", "width_ns", "count"]
TABLES = ("runs", "histograms", "top_samples", "facts", "changes")


def read_lake(folder, table="runs", filters=None):
    """Reads a table that `punctual-server export --to file:///FOLDER` wrote.

    `table` is `runs`, `histograms`, `top_samples`, `facts` or `changes`. `filters` selects
    partitions, as in pandas.read_parquet: `[("date", ">=", "2026-11-01")]`. The columns `started`
    and `time` (UTC) are calculated from `started_ns` and `time_ns`. In `histograms`, each row is
    one bucket. Needs the package pyarrow.
    """
    if table not in TABLES:
        raise ValueError(f"table {table!r}: use one of {', '.join(TABLES)}")
    folder = os.fspath(folder)
    if folder.startswith("file://"):
        folder = urllib.parse.unquote(urllib.parse.urlparse(folder).path)
    path = os.path.join(folder, table)
    if not os.path.isdir(path):
        raise NotARecording(
            f"{folder}: no table {table!r}: write it with punctual-server export --to file://FOLDER"
        )
    try:
        found = pd.read_parquet(
            path, filters=filters, partitioning=_partitions(), dtype_backend="numpy_nullable"
        )
    except (OSError, ValueError) as error:
        raise NotARecording(f"{path}: {error}") from error
    for name, clock in (("started", "started_ns"), ("time", "time_ns")):
        if clock in found:
            found.insert(0, name, pd.to_datetime(found[clock], unit="ns", utc=True))
    if table == "histograms":
        found = found.explode(_LISTS, ignore_index=True)
        found[_LISTS] = found[_LISTS].astype("Int64")
    return found


def _partitions():
    """Reads the values of the folder names as text: a machine can be called `17`."""
    import pyarrow as pa
    from pyarrow import dataset

    names = pa.schema([("date", pa.string()), ("machine", pa.string())])
    return dataset.partitioning(names, flavor="hive")

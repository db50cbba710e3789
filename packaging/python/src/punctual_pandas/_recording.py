"""A recording, and its tables as data frames."""

import json
import os

import pandas as pd

from ._counts import Counts, quantile_of_due, quantile_of_samples
from ._errors import NewerSchema, NotARecording, Unknown

# The newest schema that this package knows (the key `schema` of a recording).
SCHEMA_VERSION = 5
QUANTILES = (0.5, 0.9, 0.99, 0.999, 0.9999)
_REQUIRED = ("schema", "id", "completion", "probe", "started", "duration_ns", "threads", "series")


def frame(rows, columns, source):
    """Builds a data frame from rows, with a type for each column (name: type)."""
    rows = list(rows)
    table = {}
    for place, (name, kind) in enumerate(columns.items()):
        values = [row[place] for row in rows]
        try:
            if kind == "time":
                table[name] = pd.to_datetime(pd.Series(values, dtype="object"), utc=True)
            else:
                table[name] = pd.array(values, dtype=kind)
        except (OverflowError, TypeError, ValueError) as error:
            raise NotARecording(f"{source}: column {name}: {error}") from error
    return pd.DataFrame(table)


class Recording:
    """One measurement. `json` is the whole recording as punctual writes it."""

    def __init__(self, data, source="recording"):
        """Accepts the parsed JSON of a recording. `source` names it in messages."""
        schema = data.get("schema") if isinstance(data, dict) else None
        if isinstance(schema, int) and schema > SCHEMA_VERSION:
            raise NewerSchema(
                f"{source}: the recording has schema {schema}, but this package reads only schemas "
                f"up to {SCHEMA_VERSION}: install a newer punctual-pandas"
            )
        missing = [key for key in _REQUIRED if not isinstance(data, dict) or key not in data]
        if missing:
            raise NotARecording(
                f"{source}: not a recording of punctual: it has no key {missing[0]!r}; read the "
                "output of punctual export --format json, or of punctual show --json"
            )
        self.json = data
        self.source = source
        try:
            for name, value in (("id", self.id), ("probe", self.probe), ("label", self.label)):
                if not isinstance(value, str) and not (name == "label" and value is None):
                    raise ValueError(f"{name} is {value!r}")
            self._started = pd.Timestamp(data["started"])
            if self._started.tz is None:
                raise ValueError(f"started is {data['started']!r}: a time with a zone is expected")
            origin = data.get("origin") or {}
            self.unknown = frozenset(origin.get("unknown", ()))
            """Facts that the file of another tool does not contain, such as `missed`."""
            self._counts = [Counts.from_json(thread["histogram"]) for thread in data["threads"]]
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise self._damaged(error) from error

    def __repr__(self):
        return f"<Recording {self.id} {self.probe} {self.label or ''}>".replace(" >", ">")

    def _damaged(self, error):
        what = f"no key {error}" if isinstance(error, KeyError) else str(error)
        return NotARecording(f"{self.source}: damaged recording: {what}")

    def _frame(self, rows, columns):
        try:
            return frame(rows, columns, self.source)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise self._damaged(error) from error

    @property
    def id(self):
        """The ID."""
        return self.json["id"]

    @property
    def label(self):
        """The label that the user chose. `None` without one."""
        return self.json.get("label")

    @property
    def probe(self):
        """The name of the probe."""
        return self.json["probe"]["name"]

    @property
    def outcome(self):
        """The outcome of the verdict, such as `met`. `None` without a verdict."""
        verdict = self.json.get("verdict")
        return verdict.get("outcome") if isinstance(verdict, dict) else None

    @property
    def started(self):
        """Start of the measurement (UTC). `NaT` if the source does not contain it."""
        return pd.NaT if "started" in self.unknown else self._started

    @property
    def duration_ns(self):
        """Length of the measurement. `<NA>` if the source does not contain it."""
        return pd.NA if "duration" in self.unknown else self.json["duration_ns"]

    @property
    def name(self):
        """A short name for legends: the label, or the first digits of the ID."""
        return self.label or self.id.rsplit("-", 1)[-1][:8]

    def _cpu(self, thread):
        return self.json["threads"][thread]["cpu"]

    def threads(self):
        """Returns one row for each measuring thread: its accounting and its figures."""
        missed = "missed" not in self.unknown
        warm_up = "warm_up" not in self.unknown

        def row(place, thread):
            figures = [thread.get(name) for name in figure_names]
            accounting = (
                thread["expected"] if missed else None,
                thread["recorded"],
                thread["missed"] if missed else None,
                thread["early"],
                thread["warm_up"] if warm_up else None,
                thread["overflow"],
            )
            return (place, thread["cpu"], thread.get("label"), *accounting, *figures)

        figure_names = ["min_ns", "mean_ns", "max_ns", "p50_ns", "p90_ns", "p99_ns"]
        figure_names += ["p999_ns", "p9999_ns"]
        columns = {"thread": "int64", "cpu": "Int64", "label": "object", "expected": "Int64"}
        columns.update({"recorded": "Int64", "missed": "Int64", "early": "Int64"})
        columns.update({"warm_up": "Int64", "overflow": "Int64"})
        columns.update({name: "Int64" for name in figure_names})
        rows = (row(place, thread) for place, thread in enumerate(self.json["threads"]))
        return self._frame(rows, columns)

    def _known(self, place, of):
        """Returns the counts of a thread, and the number of periods of unknown latency."""
        if of == "samples":
            return self._counts[place], 0
        if of not in ("missed", "due"):
            raise ValueError(f"of={of!r}: use 'samples', 'missed' or 'due'")
        if "missed" in self.unknown:
            raise Unknown(f"{self.source}: the source does not contain the missed periods")
        thread = self.json["threads"][place]
        try:
            known = Counts()
            late = thread.get("missed_histogram")
            if late:
                known.add(Counts.from_json(late))
            unknown = thread["missed"] - known.recorded()
            if unknown < 0:
                raise ValueError(f"{known.recorded()} of {thread['missed']} periods were late")
            if of == "due":
                known.add(self._counts[place])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._damaged(error) from error
        return known, unknown

    def _groups(self, of, by_thread):
        """Yields (thread, CPU, counts, periods of unknown latency)."""
        places = range(len(self._counts))
        known = [(place, self._cpu(place), *self._known(place, of)) for place in places]
        if by_thread:
            yield from known
            return
        counts = Counts()
        for _, _, one, _ in known:
            counts.add(one)
        yield None, None, counts, sum(unknown for *_, unknown in known)

    def histogram(self, of="samples", by_thread=True):
        """Returns the filled buckets, one in each row.

        `of` is `samples`, `missed` (lateness of the missed periods), or `due` (both; requirements
        of punctual apply to these). A bucket contains the latencies from `lower_ns` to below
        `lower_ns + width_ns`. The column `place` shows the rows that are not buckets, so that the
        counts add up:

        - `early`: samples with a negative latency;
        - `unplaced`: samples of another tool, known to be at least `lower_ns` late;
        - `beyond`: samples of 1000 s or more;
        - `unknown`: missed periods of unknown latency.
        """
        rows = []
        for thread, cpu, counts, unknown in self._groups(of, by_thread):
            rows += [(thread, cpu, *row) for row in counts.rows()]
            if unknown:
                rows.append((thread, cpu, "unknown", None, None, unknown))
        columns = {"thread": "Int64", "cpu": "Int64", "place": "object", "lower_ns": "Int64"}
        columns.update({"width_ns": "Int64", "count": "Int64"})
        found = self._frame(rows, columns)
        return found if by_thread else found.drop(columns=["thread", "cpu"])

    def percentiles(self, quantiles=QUANTILES, of="samples", by_thread=True):
        """Returns a row for each quantile (0 to 1), by the rules of punctual.

        A value is the upper end of a bucket: never too small, and at most 1% too large. It is
        `<NA>` if no sample is expected above the quantile, or if it depends on an unknown latency.
        """
        for quantile in quantiles:
            if not 0 <= quantile <= 1:
                raise ValueError(f"quantile {quantile}: use a value from 0 to 1")
        rows = []
        for thread, cpu, counts, unknown in self._groups(of, by_thread):
            for quantile in quantiles:
                if of == "samples":
                    value = quantile_of_samples(counts, quantile)
                else:
                    value = quantile_of_due(counts, unknown, quantile)
                rows.append((thread, cpu, quantile, value))
        columns = {"thread": "Int64", "cpu": "Int64", "quantile": "float64"}
        found = self._frame(rows, {**columns, "latency_ns": "Int64"})
        return found if by_thread else found.drop(columns=["thread", "cpu"])

    def max_ns(self, of="samples"):
        """Returns the exact maximum of all threads. `<NA>` if there is none or it is unknown."""
        (_, _, counts, unknown) = next(iter(self._groups(of, by_thread=False)))
        return pd.NA if unknown or counts.max is None else counts.max

    def series(self):
        """Returns latency over time: one row for each interval of each thread.

        `start_ns` counts from the start of the measurement, and `time` is on the wall clock.
        `min_ns`, `mean_ns` and `max_ns` are `<NA>` for an interval without samples.
        """
        series = self.json["series"]

        def row(one):
            counted = one["count"] - one["early"]
            mean = round(one["sum_ns"] / counted) if counted > 0 else None
            figures = (one["min_ns"], mean, one["max_ns"])
            counts = (one["count"], one["early"], one["missed"])
            return (one["thread"], self._cpu(one["thread"]), one["start_ns"], *counts, *figures)

        columns = {"thread": "int64", "cpu": "Int64", "start_ns": "int64", "count": "Int64"}
        columns.update({"early": "Int64", "missed": "Int64", "min_ns": "Int64"})
        columns.update({"mean_ns": "Int64", "max_ns": "Int64"})
        try:
            rows = [row(one) for one in series["rows"]]
        except (KeyError, IndexError, TypeError) as error:
            raise self._damaged(error) from error
        found = self._frame(rows, columns)
        offset = pd.to_timedelta(found["start_ns"], unit="ns")
        times = self.started + offset if len(found) else pd.Series([], dtype="datetime64[ns, UTC]")
        found.insert(3, "time", times)
        return found

    @property
    def dropped(self):
        """Number of samples that are in the histograms but not in the series."""
        return self.json["series"]["dropped"]

    def top_samples(self):
        """Returns the largest samples, the largest first, with their times (UTC)."""
        keys = ("time", "monotonic_ns", "thread", "cpu", "latency_ns")

        def rows():
            # As a generator, it meets damaged data inside of `_frame`.
            for one in self.json.get("top_samples", ()):
                yield tuple(one[key] for key in keys)

        columns = {"time": "time", "monotonic_ns": "Int64", "thread": "int64", "cpu": "Int64"}
        found = self._frame(rows(), {**columns, "latency_ns": "Int64"})
        return found.sort_values("latency_ns", ascending=False, ignore_index=True)

    def tables(self):
        """Returns the other results of the probe: a dictionary of data frames by name."""
        try:
            return {
                table["name"]: pd.DataFrame(
                    table["rows"], columns=[column["key"] for column in table["columns"]]
                ).convert_dtypes()
                for table in self.json.get("tables", ())
            }
        except (KeyError, TypeError, ValueError) as error:
            raise self._damaged(error) from error


def parse(text, source):
    """Reads a recording from JSON text."""
    try:
        return Recording(json.loads(text), source)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotARecording(
            f"{source}: not a recording of punctual: it is not JSON ({error}); read the output of "
            "punctual export --format json, or of punctual show --json"
        ) from error


def read(path):
    """Reads a recording from the JSON file of `punctual export --format json`."""
    with open(path, "rb") as file:
        return parse(file.read(), os.fspath(path))

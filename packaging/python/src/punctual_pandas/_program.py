"""Calls the program `punctual`, which alone reads the store."""

import io
import json
import os
import subprocess

from ._errors import NotARecording, ProgramFailed, ProgramMissing
from ._recording import frame, parse
from ._samples import described, samples_of_csv


def _run(arguments, store, program):
    program = program or os.environ.get("PUNCTUAL_PROGRAM", "punctual")
    command = [os.fspath(program)]
    if store is not None:
        command += ["--store", os.fspath(store)]
    command += arguments
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise ProgramMissing(
            f"{program}: {error.strerror}: install punctual, or pass program=PATH (or set "
            "PUNCTUAL_PROGRAM); without the program, read an exported file with read(PATH)"
        ) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise ProgramFailed(f"{' '.join(command)}: exit code {done.returncode}: {said}")
    return done.stdout


def load(recording="last", store=None, program=None):
    """Loads a recording from the store: an ID, the start or end of an ID, `last` or `last~N`.

    `store` is a file or `postgres://...`; by default, the store of this user. `program` is the
    path of punctual; by default, PUNCTUAL_PROGRAM or `punctual` in PATH.
    """
    output = _run(["show", "--json", "--", recording], store, program)
    return parse(output, f"recording {recording}")


def load_samples(recording="last", store=None, program=None):
    """Loads every sample of a recording that was measured with --samples.

    `attrs["dropped"]` is the number of samples that could not be stored, of which a warning tells,
    and `attrs["resolution_ns"]` the step to which latencies are rounded down; None if unknown.
    """
    output = _run(["export", "--format", "csv", "--", recording], store, program)
    samples = samples_of_csv(io.BytesIO(output), f"recording {recording}")
    about = load(recording, store, program).json
    parameters = about["probe"]["parameters"]
    kept = about.get("samples") or {}
    described(samples, kept.get("dropped"), parameters.get("sample_resolution_ns"))
    return samples


def recordings(store=None, program=None):
    """Lists the recordings of the store, the newest first."""
    output = _run(["list", "--json"], store, program)
    try:
        listed = json.loads(output)
        rows = [
            (
                one["id"],
                one["started"],
                one["duration_ns"],
                one["probe"],
                one["label"],
                one["host"],
                one["completion"],
                one["outcome"],
                one["recorded"],
                one["missed"],
                one["p99_ns"],
                one["max_ns"],
                one["samples"],
            )
            for one in listed
        ]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise NotARecording(f"punctual list --json: unexpected output: {error!r}") from error
    columns = {"id": "object", "started": "time", "duration_ns": "Int64", "probe": "object"}
    columns.update({"label": "object", "host": "object", "completion": "object"})
    columns.update({"outcome": "object", "recorded": "Int64", "missed": "Int64"})
    columns.update({"p99_ns": "Int64", "max_ns": "Int64", "samples": "boolean"})
    return frame(rows, columns, "punctual list --json")

#!/usr/bin/env python3
"""Verifies a statement of `punctual sign` without code of punctual or other packages.

    verify_statement.py FILE KEY [RECORDING...]

FILE is a statement, the PDF of a certificate, or the folder of an unpacked bundle. KEY is a public key
in hexadecimal digits, or a file with keys, as `punctual key -o` writes it. Checks the
signature (Ed25519, RFC 8032), the digests of the recording and of the files, the accounting of its
periods, and the limits on the largest latency and on missed periods. Exits with 0 if all hold. Each
recording in a bundle must be that of the statement; its store, and recordings with explained outliers, are
only compared with their signed digests.

Of a statement about a series, checks that the results of its runs allow the verdict; the exact bound is
not computed here. RECORDING are runs of the series from `punctual export --format json`: checks their
digests and late seconds.
"""
import base64
import hashlib
import json
import math
import pathlib
import re
import sys

LEFT_OUT = {"verdict", "judgement", "sender_judgement", "samples"}
WITHOUT_SAMPLES = "the imported file has no samples"

# Ed25519 (RFC 8032, section 5.1), slow but short.
P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)


def add(a, b):
    """Adds two points in extended coordinates."""
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = f - e, h - g, h + g, f + e
    return e * f % P, g * h % P, f * g % P, e * h % P


def multiply(scalar, point):
    result = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            result = add(result, point)
        point = add(point, point)
        scalar >>= 1
    return result


def equal(a, b):
    return (a[0] * b[2] - b[0] * a[2]) % P == 0 and (a[1] * b[2] - b[1] * a[2]) % P == 0


def point(data):
    """Decodes a point, or raises ValueError."""
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if y >= P or (x * x - square) % P or (x == 0 and sign):
        raise ValueError("not a point of the curve")
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


BASE = point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def is_signed(key, message, signature):
    if len(key) != 32 or len(signature) != 64:
        return False
    try:
        public, r = point(key), point(signature[:32])
    except ValueError:
        return False
    s = int.from_bytes(signature[32:], "little")
    h = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % L
    return s < L and equal(multiply(s, BASE), add(r, multiply(h, public)))


class Number(str):
    """A number with a fraction, as it is written in the file."""


def canonical(value):
    """Returns JSON without white space, with sorted keys and without causes in words."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        fields = (k for k in sorted(value) if k != "words")
        return "{" + ",".join(f"{canonical(k)}:{canonical(value[k])}" for k in fields) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def broken_limits(predicate):
    """Yields what contradicts the verdict, for the limits that are computed here."""
    for result in predicate["verdict"]["limits"]:
        metric, limit = result["limit"]["metric"], result["limit"]["at_most"]
        for thread in predicate["recording"]["threads"]:
            value = {"max": thread["max_ns"], "missed": thread["missed"]}.get(metric)
            if result["held"] and value is not None and int(value) > limit:
                yield f"{metric} is {value}, above {limit}"


def digest_of(data):
    """Returns the digest of a recording or a series."""
    data = {name: value for name, value in data.items() if name not in LEFT_OUT}
    if "warnings" in data:
        data["warnings"] = [one for one in data["warnings"] if one != WITHOUT_SAMPLES]
    return hashlib.sha256(canonical(data).encode()).hexdigest()


def series_problems(series, result, named):
    """Yields what contradicts the verdict over the runs of a series. A bound with a confidence of 95%
    is never below the measured rate, nor below the bound of no late second (Poisson)."""
    runs, asked, outcome = series["runs"], series["asked"], series["outcome"]
    words = {"held": "PASSED", "broken": "FAILED"}
    if result != words.get(outcome, "WARNED") or series["claims"][0]["outcome"] != outcome:
        yield "the verdict contradicts itself"
    if [run["number"] for run in runs] != list(range(1, asked["sample"]["runs"] + 1)):
        yield "the list of runs is not complete"
    measured = [run for run in runs if run["late_seconds"] is not None]
    yield from (f"run {run['number']} has no digest" for run in measured if run["recording"] not in named)
    planned = asked["sample"]["length_ns"]
    lengths = [math.ceil(min(run["measured_ns"], planned) / 1e9) for run in measured] or [1]
    shortest, missing = min(lengths), len(runs) - len(measured)
    allowed = float(asked["max_late_seconds_per_day"])
    late = sum(min(run["late_seconds_at_most"], shortest) for run in measured) + missing * shortest
    if outcome == "held":
        if series["refused"] or any(run["pending"] for run in runs) or len(measured) < 20:
            yield "the runs prove nothing, but the verdict is held"
        if max(late, -math.log(0.05)) * 86_400 / (shortest * len(runs)) > allowed * (1 + 1e-9):
            yield f"the runs do not prove at most {allowed} late seconds a day"
    late = sum(run["late_seconds"] for run in measured)
    if outcome == "broken" and late * 86_400 / (max(lengths) * len(runs)) <= allowed:
        yield f"the runs do not show more than {allowed} late seconds a day"


def run_problems(series, named, recordings):
    """Yields what contradicts the results of the runs in their recordings."""
    asked, stated = series["asked"], {run["recording"]: run for run in series["runs"]}
    for recording in recordings:
        run = stated.get(recording["id"])
        if run is None or digest_of(recording) != named.get(recording["id"]):
            yield f"the recording {recording['id']} is not that of a run"
        elif run["late_seconds"] is not None and not asked.get("jobs") and not asked.get("misses"):
            late = {
                row["start_ns"] // 10**9
                for row in recording["series"]["rows"]
                if (row["max_ns"] or 0) > asked["budget_ns"] or row["missed"]
            }
            if len(late) > run["late_seconds_at_most"]:
                yield f"run {run['number']} has {len(late)} late seconds in its recording"


def read(path):
    """Returns the envelope, and the files that it must name; None if unknown."""
    if path.is_dir():
        paths = [one for one in path.rglob("*") if one.is_symlink() or not one.is_dir()]
        if odd := [str(one) for one in paths if one.is_symlink() or not one.is_file()]:
            raise ValueError(f"not a plain file: {odd[0]}")
        files = {str(one.relative_to(path)): one.read_bytes() for one in paths}
        return json.loads(files.pop("statement.json")), files
    data = path.read_bytes()
    if not data.startswith(b"%PDF-"):
        return json.loads(data), None
    page, _, update = data.partition(b"\n%statement of punctual\n")
    statement = update.partition(b">>\nstream\n")[2].partition(b"\nendstream\n")[0]
    if attached(page, statement) != data:
        raise ValueError("the PDF was changed after its statement was attached")
    return json.loads(statement), {"certificate.pdf": page}


def attached(page, statement):
    """Returns the PDF with this attachment: another update could replace the page."""
    catalog = page.partition(b"1 0 obj\n<<\n")[2].partition(b"\n>>\nendobj")[0]
    trailer = page[page.rindex(b"\ntrailer\n"):]
    table, file, info = (
        int(re.search(name + rb"(\d+)", trailer)[1]) for name in (b"startxref\n", b"/Size ", b"/Info ")
    )
    objects = {
        1: b"%s\n  /Names << /EmbeddedFiles << /Names [(statement.json) %d 0 R] >> >>\n"
        b"  /AF [%d 0 R]\n>>\n" % (catalog, file + 1, file + 1),
        file: b"  /Type /EmbeddedFile\n  /Subtype /application#2Fvnd.in-toto+json\n"
        b"  /Length %d\n>>\nstream\n%s\nendstream\n" % (len(statement), statement),
        file + 1: b"  /Type /Filespec\n  /F (statement.json)\n  /UF (statement.json)\n"
        b"  /EF << /F %d 0 R >>\n  /AFRelationship /Data\n>>\n" % file,
    }
    data, entries = page + b"\n%statement of punctual\n", b""
    for number, body in objects.items():
        entries += b"%d 1\n%010d 00000 n\r\n" % (number, len(data))
        data += b"%d 0 obj\n<<\n%sendobj\n" % (number, body)
    return data + b"xref\n%strailer\n<<\n  /Size %d\n  /Root 1 0 R\n  /Info %d 0 R\n" % (
        entries, file + 2, info,
    ) + b"  /Prev %d\n>>\nstartxref\n%d\n%%%%EOF\n" % (table, len(data))


def digests(files):
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def read_keys(text):
    """Returns the key, or the keys of a file: the first word of each line."""
    if re.fullmatch("[0-9a-fA-F]{64}", text):
        return [bytes.fromhex(text)]
    lines = (line.split() for line in pathlib.Path(text).read_text().splitlines())
    return [bytes.fromhex(words[0]) for words in lines if words and not words[0].startswith("#")]


def problems(envelope, files, keys, recordings):
    """Yields each reason why the statement does not hold."""
    kind, payload = envelope["payloadType"], base64.b64decode(envelope["payload"], validate=True)
    message = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
    signatures = [base64.b64decode(one["sig"]) for one in envelope["signatures"]]
    if kind != "application/vnd.in-toto+json":
        yield "the envelope has another kind of payload"
    if not any(is_signed(key, message, one) for one in signatures for key in keys):
        yield "the signature is by none of the keys, or the statement was changed"
        return
    statement = json.loads(payload, parse_float=Number)
    predicate = statement["predicate"]
    if ("series" in predicate) == ("recording" in predicate):
        yield "the statement is about neither a recording nor a series"
        return
    subjects = [(one["name"], one["digest"]["sha256"]) for one in statement["subject"]]
    data = predicate.get("series") or predicate["recording"]
    if subjects[0][1] != digest_of(data):
        yield "the digest is that of other data"
    named = subjects[1:]
    if "series" in predicate:
        runs = {name[10:]: sha256 for name, sha256 in named if name.startswith("recording ")}
        named = [one for one in named if not one[0].startswith("recording ")]
        yield from series_problems(data, predicate["result"], runs)
        yield from run_problems(data, runs, recordings)
    else:
        for thread in data["threads"]:
            if thread["expected"] != thread["recorded"] + thread["missed"] + thread["warm_up"]:
                yield "the periods do not add up"
        yield from broken_limits(predicate)
    if files is not None:
        if sorted(named) != sorted(digests(files).items()):
            yield "a file was changed, added or removed"
        yield from recording_problems(files, dict(subjects))


def recording_problems(files, named):
    """Yields each recording in the files that is not the one of the statement. Stores are not read, nor
    recordings with explained outliers: a bundle adds words to their causes."""
    for name, content in files.items():
        data = json.loads(content, parse_float=Number) if name.endswith(".json") else {}
        if isinstance(data, dict) and {"schema", "probe", "verdict"} <= data.keys():
            if not data.get("explanation") and named.get(f"recording {data['id']}") != digest_of(data):
                yield f"{name} is not the recording of the statement"


def main():
    envelope, files = read(pathlib.Path(sys.argv[1]))
    recordings = [json.loads(pathlib.Path(name).read_bytes(), parse_float=Number) for name in sys.argv[3:]]
    found = list(problems(envelope, files, read_keys(sys.argv[2]), recordings))
    print("\n".join(found) if found else "the statement holds")
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main())

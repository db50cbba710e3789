#!/usr/bin/env python3
"""Verifies a statement of `punctual sign` without code of punctual or other packages.

    verify_statement.py FILE PUBLIC_KEY

FILE is a statement, the PDF of a certificate, or the folder of an unpacked bundle. Checks the
signature (Ed25519, RFC 8032), the digests of the recording and of the files, the accounting of its
periods, and the limits on the largest latency and on missed periods. Exits with 0 if all hold.
"""
import base64
import hashlib
import json
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


def read(path):
    """Returns the envelope, and the digests of the files that it must name; None if unknown."""
    if path.is_dir():
        files = {str(f.relative_to(path)): f.read_bytes() for f in path.rglob("*") if f.is_file()}
        return json.loads(files.pop("statement.json")), digests(files)
    data = path.read_bytes()
    if not data.startswith(b"%PDF-"):
        return json.loads(data), None
    page, _, update = data.partition(b"\n%statement of punctual\n")
    statement = update.partition(b">>\nstream\n")[2].partition(b"\nendstream\n")[0]
    if attached(page, statement) != data:
        raise ValueError("the PDF was changed after its statement was attached")
    return json.loads(statement), digests({"certificate.pdf": page})


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


def problems(envelope, files, key):
    """Yields each reason why the statement does not hold."""
    kind, payload = envelope["payloadType"], base64.b64decode(envelope["payload"], validate=True)
    message = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
    signatures = [base64.b64decode(one["sig"]) for one in envelope["signatures"]]
    if kind != "application/vnd.in-toto+json":
        yield "the envelope has another kind of payload"
    if not any(is_signed(key, message, one) for one in signatures):
        yield "the signature does not match"
        return
    statement = json.loads(payload, parse_float=Number)
    predicate = statement["predicate"]
    recording = {k: v for k, v in predicate["recording"].items() if k not in LEFT_OUT}
    recording["warnings"] = [w for w in recording["warnings"] if w != WITHOUT_SAMPLES]
    digest = hashlib.sha256(canonical(recording).encode()).hexdigest()
    subjects = [(one["name"], one["digest"]["sha256"]) for one in statement["subject"]]
    if subjects[0][1] != digest:
        yield "the digest is that of other data"
    if files is not None and sorted(subjects[1:]) != sorted(files.items()):
        yield "a file was changed, added or removed"
    for thread in recording["threads"]:
        if thread["expected"] != thread["recorded"] + thread["missed"] + thread["warm_up"]:
            yield "the periods do not add up"
    yield from broken_limits(predicate)


def main():
    envelope, files = read(pathlib.Path(sys.argv[1]))
    found = list(problems(envelope, files, bytes.fromhex(sys.argv[2])))
    print("\n".join(found) if found else "the statement holds")
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main())

#!/usr/bin/env python3
"""Verifies a statement of `punctual sign` without code of punctual or other packages.

    verify_statement.py FILE PUBLIC_KEY

Checks the signature (Ed25519, RFC 8032), the digest of the recording, the accounting of its
periods, and the limits on the largest latency and on missed periods. Exits with 0 if all hold.
"""
import base64
import hashlib
import json
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


def problems(envelope, key):
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
    if [one["digest"]["sha256"] for one in statement["subject"]] != [digest]:
        yield "the digest is that of other data"
    for thread in recording["threads"]:
        if thread["expected"] != thread["recorded"] + thread["missed"] + thread["warm_up"]:
            yield "the periods do not add up"
    yield from broken_limits(predicate)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        envelope = json.load(file)
    found = list(problems(envelope, bytes.fromhex(sys.argv[2])))
    print("\n".join(found) if found else "the statement holds")
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main())

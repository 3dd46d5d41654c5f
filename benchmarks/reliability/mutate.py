"""Changes that break inputs: of bytes, of text, and of JSON by its structure. Each draws from a `Random` alone."""

import copy
import json
from random import Random
from typing import Any

BYTES = [
    b"\x00",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\x80\x00\x00\x00",
    b"\x00" * 64,
    b"\n",
    b"\r\n",
]
TEXTS = [
    "",
    " ",
    "\0",
    "\t",
    "\n",
    "\r",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "..",
    "../..",
    "../../etc/passwd",
    "/etc/passwd",
    "//",
    "\\",
    "C:\\x",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{7*7}}",
    "${x}",
    "$(touch x)",
    "`id`",
    "; rm -rf x",
    "%s%n",
    "'",
    '"',
    ";",
    ",",
    "=",
    "[",
    "]",
    "{",
    "}",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "1e308",
    "-1",
    "0",
    "0x10",
    "1_000",
    "١٢",
    "true",
    "null",
    "a" * 300,
    "a" * 70_000,
    "ü",
    "ﬁ",
    "e\u0301",
    "\u202e",
    "\u2028",
    "\ufeff",
    "😀",
    "\udc80",
    "\ud800",
    "9" * 400,
    "9" * 5000,
    "1" + "0" * 30,
    "con",
    ".",
    ".hidden",
    "x.jpg",
    "train",
    "val",
    "difficult",
    "9223372036854775808",
    "-9223372036854775809",
    "4294967296",
    "&a;",
    "<!--",
    "<a>",
    "</object>",
    "<object>",
    "<![CDATA[",
    "<!DOCTYPE a>",
    '<?xml version="1.0" encoding="utf-7"?>',
    "[data]",
    "[[x]]",
    "a.b.c = 1",
]
DEEP = "nested"  # stands for a list that is nested deeper than Python copies
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    0.5,
    -0.0,
    1e308,
    float("inf"),
    float("nan"),
    2**31,
    2**63,
    2**64,
    10**30,
    10**400,
    [],
    {},
    [[]],
    [None],
    {"a": 1},
    {"id": 1},
    "1",
    [1, 2, 3, 4],
    [0, 0, -5, 5],
    "x" * 1000,
]


def of_bytes(good: bytes, random: Random) -> bytes:
    """Return bytes with a few cut out, changed, repeated or put in."""
    found = bytearray(good)
    for _ in range(random.choice((1, 1, 2, 4, 8))):
        at, length = random.randrange(len(found) + 1), random.choice((1, 1, 2, 4, 16, 256))
        kind = random.randrange(6)
        if kind == 0:
            del found[at : at + length]
        elif kind == 1:
            found[at:at] = random.choice(BYTES)
        elif kind == 2:
            value = random.choice(BYTES)
            found[at : at + len(value)] = value
        elif kind == 3 and at < len(found):
            found[at] ^= 1 << random.randrange(8)
        elif kind == 4:
            found[at:at] = found[at : at + length] * random.choice((1, 2, 50))
        elif kind == 5 and random.random() < 0.3:
            del found[at:]
    return bytes(found)


def of_text(good: str, random: Random) -> bytes:
    """Return a text with pieces of other texts in it, cut, repeated or in another encoding."""
    found = good
    for _ in range(random.choice((1, 1, 2, 3))):
        at, length = random.randrange(len(found) + 1), random.choice((0, 0, 1, 3, 10, 40))
        piece = random.choice(TEXTS) if random.random() < 0.8 else found[at : at + 30] * random.choice((1, 2, 200))
        found = found[:at] + piece + found[at + length :]
    if random.random() < 0.05:
        found = random.choice(("[", "{", "(", "<a>", '{"a":', "\n", "x;")) * random.choice((500, 50_000)) + found
    encoding = random.choice(("utf-8",) * 12 + ("utf-16", "latin-1", "utf-8-sig", "utf-7"))
    return found.encode(encoding, "surrogatepass" if encoding == "utf-8" and random.random() < 0.5 else "replace")


def of_json(good: Any, random: Random) -> str:
    """Return JSON with a few of its values, keys or lengths changed."""
    found = copy.deepcopy(good)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        found = _changed(found, random)
    depth = random.choice((20, 900, 5000))
    text = json.dumps(found).replace(f'"{DEEP}"', "[" * depth + "]" * depth)
    if random.random() < 0.05:
        text = text.replace(random.choice(("1", "0", "2")), "9" * random.choice((400, 5000)), 1)
    return text


def _changed(value: Any, random: Random) -> Any:
    """Return a value with one part replaced, at a random depth."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(list(value))
        kind = random.randrange(8)
        if kind == 0:
            del value[key]
        elif kind == 1:
            value[random.choice(TEXTS)] = value.pop(key)
        elif kind == 2:
            value[random.choice(TEXTS)] = _any(random)
        else:
            value[key] = _changed(value[key], random)
        return value
    if isinstance(value, list) and value and random.random() < 0.9:
        at, kind = random.randrange(len(value)), random.randrange(8)
        if kind == 0:
            del value[at]
        elif kind == 1:
            value.insert(at, _any(random))
        elif kind == 2:
            value.extend(copy.deepcopy(value[at : at + 1]) * random.choice((1, 3, 1000)))
        else:
            value[at] = _changed(value[at], random)
        return value
    return _any(random)


def _any(random: Random) -> Any:
    if random.random() < 0.02:
        return DEEP
    return copy.deepcopy(random.choice(VALUES if random.random() < 0.6 else TEXTS))

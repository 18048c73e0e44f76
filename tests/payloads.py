"""Payloads that every database takes and gives back equal, and those that none is asked to take."""

import json
import math
from typing import Any

import pytest


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


# The names say what the values are about.
TAKEN: dict[str, Any] = {
    "the largest float": 1.7976931348623157e308,
    "1e308": 1e308,
    "-1e308": -1e308,
    "the smallest float": 5e-324,
    "the smallest normal float": 2.2250738585072014e-308,
    "0.1 + 0.2": 0.1 + 0.2,
    "seventeen digits": 123456789.12345679,
    "2.5e-5": 2.5e-5,
    "1.0": 1.0,
    "1": 1,
    "1e15": 1e15,
    "1e16": 1e16,
    "1e20": [1e20, {"1e+20": "-0.0, 1e+20"}],
    "2.0**53": 2.0**53,
    "2.0**64": 2.0**64,
    "2**53": [2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1],
    "2**63": [2**63 - 1, 2**63, -(2**63)],
    "2**64 - 1": 2**64 - 1,
    "the order of keys": {"b": 1, "aa": 2, "a": 3},
    "an empty key": {"": 1, " ": {"": []}},
    "keys that look alike": {"a": 1, "A": 2, "a ": 3, "\u00e4": 4, "a\u0308": 5, "\u00c4": 6},
    "texts that look like times": ["2026-01-31", "12:30:00.5", "2026-01-31T12:30:00Z", "NaN"],
    "texts that look like numbers": ["18446744073709551616", "1e400", "-0.0", "1.0", "null"],
    "controls": "\x01\t\n\x1f\x7f\u0080\u2028\u2029\ufeff\ufffe\uffff",
    "quotes": ["'", '"', "\\", "\\\\", "\\u0000", "%s", "%", "{x}", "\\'", "`"],
    "emoji": {"\U0001f600": "\U0001f468\u200d\U0001f469\u200d\U0001f467"},
    "a key of 65,535 bytes": {"\u00e4" * 32_767 + "k": 1},
    "29 levels": nested(29),
    "many keys": {str(n): n for n in range(5000)},
    "a large document": ["\u00e4'" * 100, 0.1] * 2500,
    "nothing": [None, False, True, 0, "", [], {}],
}

BEYOND = "beyond 64 bits"
REFUSED: dict[str, tuple[Any, str]] = {
    "2**64": (2**64, BEYOND),
    "-(2**63) - 1": ([{"a": -(2**63) - 1}], BEYOND),
    "400 digits": (10**399, BEYOND),
    "4000 digits": (10**3999, BEYOND),
    "NaN": (math.nan, "is not JSON"),
    "Infinity": ([math.inf], "is not JSON"),
    "NUL": ({"\0": 1}, "NUL"),
    "a lone surrogate": ("\ud800", "surrogates"),
    "two halves of a letter": ("\ud83d\ude00", "surrogates"),
    "32 levels": (nested(32), "levels"),
    "101 levels": (nested(101), "levels"),
    "100,000 levels": (nested(100_000), "is not JSON"),
    "a key of 65,536 bytes": ([{"\u00e4" * 32_768: 1}], "key"),
}

taken = pytest.mark.parametrize("value", TAKEN.values(), ids=list(TAKEN))
refused = pytest.mark.parametrize(("value", "word"), REFUSED.values(), ids=list(REFUSED))


def written(value: Any) -> str:
    """A value with the types of its parts and without the order of its keys."""
    return json.dumps(value, sort_keys=True)

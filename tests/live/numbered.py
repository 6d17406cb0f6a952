"""Makes vectors, queries and payloads from the numbers in operations."""

import json

import numpy as np


def vectors(seed, dim):
    """Returns the token vectors of a number: 1 to 8 vectors or, for every 17th number, 30 to 69, which is more than a
    tile of any kernel."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 9)) if seed % 17 else int(rng.integers(30, 70))
    return (rng.standard_normal((count, dim)) * rng.choice([1, 1, 1, 30, 0.01])).astype(np.float32)


def query_vectors(seed, dim):
    rng = np.random.default_rng([seed, 1])
    return rng.standard_normal((int(rng.integers(1, 9)), dim)).astype(np.float32)


def payload_of(number):
    """Returns the payload of a number as JSON text, "" for 0. Every fifth payload has white space between members."""
    if number == 0:
        return ""
    separators = (", ", " : ") if number % 5 == 0 else (",", ":")
    fields = {"n": number, "title": f'T {number} "é"\n', "deep": {"x": [1, 2.5, None, True]}}
    return json.dumps(fields, ensure_ascii=False, separators=separators)


def same_json(a, b):
    return a == b or (bool(a) and bool(b) and json.loads(a) == json.loads(b))

"""Compares a driver's answer with the expected one. Scores, similarities and token values must be equal as FP32,
explanations as FP64."""

import numpy as np

# Values that a driver may leave out.
RANKING = {"missing": [], "sequence": 0, "query_tokens": [], "query_truncated": False}
RESULT = {"truncated": False}
OUTCOME = {"truncated": False, "sequence": 0}
EXPLANATION = {"query_tokens": []}
FLOATS = ("score", "similarities", "tokens")


def difference(method, expected, answer, transport="grpc"):
    """Returns a text that says how a driver's answer differs from the expected step, or None if it does not differ."""
    if "error" in expected:
        if "error" not in answer:
            return f"expected the error {expected['error']}, got {short(answer)}"
        return error_difference(expected_error(expected["error"], transport), answer["error"])
    if "result" not in answer:
        return f"expected a result, got {short(answer)}"
    kind = np.float64 if method == "explain" else np.float32
    wanted, found = (normal(one, kind) for one in (expected["result"], answer["result"]))
    if transport == "http":
        wanted, found = without_empty_payloads(wanted), without_empty_payloads(found)
    return unequal(wanted, found, method, subset=method == "info")


def expected_error(error, transport):
    """Returns the members that an error must have. Over HTTP, the members of `http` replace those of the same name. A
    null member is not compared."""
    members = {**error, **(error.get("http", {}) if transport == "http" else {})}
    return {name: value for name, value in members.items() if name != "http" and value is not None}


def error_difference(expected, error):
    """Returns how an error differs from the expected one, or None. An error with `local` comes from the client's own
    check of an argument. It has no field and reason, but its message must name the argument."""
    if error.get("local"):
        if "argument" not in expected:
            return f"the client refused the call itself: {error.get('message')}"
        if expected["argument"] not in error.get("message", ""):
            return f"the client's message does not name {expected['argument']!r}: {error.get('message')}"
        return None if error["code"] == expected["code"] else f"expected {expected['code']}, got {short(error)}"
    for name, value in expected.items():
        accepted = value if isinstance(value, list) else [value]
        if name != "argument" and error.get(name) not in accepted:
            return f"{name}: expected {' or '.join(map(repr, accepted))}, got {short(error)}"
    if not error.get("message"):
        return "the error has no message"
    return None


def normal(value, kind):
    """Returns a result with defaults filled in and numbers in one form."""
    if isinstance(value, list):
        return [normal(one, kind) for one in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"int64"}:
        return int(value["int64"])
    defaults_of = (("documents", RANKING), ("score", RESULT), ("outcome", OUTCOME))
    for mark, defaults in defaults_of if kind is np.float32 else (("score", EXPLANATION),):
        if mark in value:
            value = {**defaults, **value}
    made = {}
    for name, one in value.items():
        if name == "payload":
            made[name] = one
        elif name in FLOATS:
            made[name] = bits(one, kind)
        else:
            made[name] = normal(one, kind)
    return made


def without_empty_payloads(value):
    """Leaves out empty payloads, because over HTTP a document without a payload has an empty one."""
    if isinstance(value, dict):
        return {name: without_empty_payloads(one) for name, one in value.items() if (name, one) != ("payload", {})}
    return [without_empty_payloads(one) for one in value] if isinstance(value, list) else value


def bits(value, kind):
    """Returns the bits of numbers as text. Both zeros, +0 and -0, give the same text."""
    if isinstance(value, list):
        return [bits(one, kind) for one in value]
    number = kind(value) + kind(0)
    return f"{float(number)!r} ({number.tobytes()[::-1].hex()})"


def unequal(expected, found, place, subset=False):
    """Returns where two values differ, or None. With `subset`, objects may have more members than expected, and lists
    may have more objects."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in expected if subset else {**expected, **found}:
            if expected.get(name) is None and name in expected and name == "position":
                continue  # not fixed
            if name not in found or name not in expected:
                return f"{place}.{name}: expected {short(expected.get(name))}, got {short(found.get(name))}"
            problem = unequal(expected[name], found[name], f"{place}.{name}", subset)
            if problem:
                return problem
        return None
    if isinstance(expected, list) and isinstance(found, list):
        if subset and all(isinstance(one, dict) and "name" in one for one in expected):
            named = {one["name"]: one for one in found}
            pairs = [(one, named.get(one["name"])) for one in expected]
        elif len(expected) != len(found):
            return f"{place}: expected {len(expected)} items, got {len(found)}: {short(expected)} and {short(found)}"
        else:
            pairs = list(zip(expected, found))
        for i, (one, other) in enumerate(pairs):
            problem = unequal(one, other, f"{place}[{i}]", subset)
            if problem:
                return problem
        return None
    same = type(expected) is type(found) or {type(expected), type(found)} == {int, float}
    return None if same and expected == found else f"{place}: expected {short(expected)}, got {short(found)}"


def short(value):
    text = repr(value)
    return text if len(text) <= 400 else text[:400] + "..."

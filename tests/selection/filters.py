"""Random payloads and random filters, and a second implementation of filters, which evaluates a filter on the payload
of one document. The C++ tests have the same in tests/support/collection/random_filters.h and filter_meaning.h.

A filter is a tuple: ("and", [FILTER, ...]), ("or", [FILTER, ...]), ("not", FILTER), ("equals", FIELD, VALUE),
("in", FIELD, [VALUE, ...]), ("exists", FIELD), or ("range", FIELD, LOW, HIGH), where a bound is None or
(VALUE, EXCLUSIVE).
"""

import datetime
import json
import re

import server as _  # noqa: F401  makes the generated messages importable
from maxsim.v1 import rerank_pb2

# Kind and path of each field.
FIELDS = {
    "lang": ("keyword", "m.lang"),
    "tags": ("keywords", "m.tags"),
    "year": ("integer", "year"),
    "price": ("number", "price"),
    "sold": ("boolean", "m.sold"),
    "at": ("time", "at"),
}
KINDS = {
    "keyword": rerank_pb2.FIELD_KIND_KEYWORD,
    "keywords": rerank_pb2.FIELD_KIND_KEYWORDS,
    "integer": rerank_pb2.FIELD_KIND_INTEGER,
    "number": rerank_pb2.FIELD_KIND_NUMBER,
    "boolean": rerank_pb2.FIELD_KIND_BOOLEAN,
    "time": rerank_pb2.FIELD_KIND_TIME,
}
KEYWORDS = ["", "a", "b", "ab", "é", 'quote " and \\', "new\nline", "z"]
ODD_INTEGERS = [-(1 << 63), (1 << 63) - 1, (1 << 53) + 1, -1]
ODD_NUMBERS = [-0.0, 5e-324, 1e300, -2.5, 1 / 3]
TIMES = [
    "2026-01-02T03:04:05Z", "2026-01-02T04:04:05+01:00", "2026-01-02T03:04:05.5Z", "2026-01-02T03:04:05.000001Z",
    "1969-12-31T23:59:59.25Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "2026-01-02T03:04:06Z",
]  # fmt: skip


class Random:
    """Makes payloads and filters from a random.Random. Filters use only the fields named in `fields`, but payloads also
    have values of other fields."""

    def __init__(self, chooser, fields):
        self.chooser, self.fields = chooser, list(fields)

    def _integer(self):
        return self.chooser.choice(ODD_INTEGERS) if self.chooser.random() < 0.1 else self.chooser.randrange(9)

    def _number(self):
        return self.chooser.choice(ODD_NUMBERS) if self.chooser.random() < 0.2 else self.chooser.randrange(18) / 2

    def payload(self):
        """Returns a payload in which about one field in four is missing. Different payloads often share values."""
        chooser, payload = self.chooser, {}
        members = {
            ("m", "lang"): lambda: chooser.choice(KEYWORDS),
            ("m", "tags"): lambda: chooser.choices(KEYWORDS, k=chooser.randrange(5)),
            ("year",): self._integer,
            ("price",): lambda: self._integer() if chooser.random() < 0.4 else self._number(),
            ("m", "sold"): lambda: chooser.random() < 0.5,
            ("at",): lambda: chooser.choice(TIMES),
        }
        for path, make in members.items():
            if chooser.random() < 0.25:
                continue
            place = payload
            for key in path[:-1]:
                place = place.setdefault(key, {})
            place[path[-1]] = None if chooser.random() < 0.05 else make()
        return payload

    def _value(self, kind):
        chooser = self.chooser
        if kind in ("keyword", "keywords"):
            return chooser.choice(KEYWORDS)
        if kind == "integer":
            return float(chooser.randrange(9)) if chooser.random() < 0.2 else self._integer()
        if kind == "number":
            return self._integer() if chooser.random() < 0.3 else self._number()
        return chooser.random() < 0.5 if kind == "boolean" else chooser.choice(TIMES)

    def _comparison(self):
        chooser = self.chooser
        field = chooser.choice(self.fields)
        kind = FIELDS[field][0]
        if chooser.random() < 1 / 6:
            return ("exists", field)
        if chooser.random() < 1 / 3:
            return ("in", field, [self._value(kind) for _ in range(chooser.randint(1, 5))])
        if kind not in ("integer", "number", "time") or chooser.random() < 1 / 4:
            return ("equals", field, self._value(kind))
        bounds = [(self._value(kind), chooser.random() < 0.5) for _ in range(2)]
        left_out = chooser.randrange(3)
        if left_out < 2:
            bounds[left_out] = None
        return ("range", field, *bounds)

    def tree(self, depth):
        """Returns a filter of at most `depth` levels of and, or and not over comparisons."""
        chooser = self.chooser
        if depth <= 1 or chooser.random() < 1 / 3:
            return self._comparison()
        if chooser.random() < 1 / 4:
            return ("not", self.tree(depth - 1))
        return (chooser.choice(["and", "or"]), [self.tree(depth - 1) for _ in range(chooser.randint(1, 4))])


def values_of(payload, field):
    """Returns the payload's values of a field: none, one, or the elements of a list."""
    kind, path = FIELDS[field]
    for key in path.split("."):
        payload = payload.get(key)
        if payload is None:
            return []
    return payload if kind == "keywords" else [payload]


def _microseconds(text):
    """Returns a time of RFC 3339 in microseconds since 1970."""
    whole, fraction, zone = re.fullmatch(r"([^.Z+]*)(?:\.(\d+))?(Z|\+\d\d:\d\d)", text).groups()
    time = datetime.datetime.fromisoformat(whole + ("+00:00" if zone == "Z" else zone))
    since = time - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return since // datetime.timedelta(microseconds=1) + int((fraction or "").ljust(6, "0")[:6])


_ORDERED = {"integer": int, "number": float, "time": _microseconds}


def matches(tree, payload):
    """Returns whether a document with this payload matches the filter."""
    node = tree[0]
    if node == "and":
        return all(matches(one, payload) for one in tree[1])
    if node == "or":
        return any(matches(one, payload) for one in tree[1])
    if node == "not":
        return not matches(tree[1], payload)
    values = values_of(payload, tree[1])
    if node == "exists":
        return bool(values)
    key = _ORDERED.get(FIELDS[tree[1]][0], lambda value: value)
    if node == "equals":
        return any(key(value) == key(tree[2]) for value in values)
    if node == "in":
        return any(key(value) == key(wanted) for value in values for wanted in tree[2])
    low, high = tree[2], tree[3]
    for value in map(key, values):
        if low and (value <= key(low[0]) if low[1] else value < key(low[0])):
            continue
        if high and (value >= key(high[0]) if high[1] else value > key(high[0])):
            continue
        return True
    return False


def text_of(tree):
    """Returns the text form of a filter."""
    node = tree[0]
    if node in ("and", "or"):
        return "(" + f" {node} ".join(text_of(one) for one in tree[1]) + ")"
    if node == "not":
        return f"not {text_of(tree[1])}"
    if node == "exists":
        return f"exists({tree[1]})"
    if node == "equals":
        return f"{tree[1]} = {json.dumps(tree[2])}"
    if node == "in":
        return f"{tree[1]} in ({', '.join(json.dumps(value) for value in tree[2])})"
    signs = ((tree[2], ">", ">="), (tree[3], "<", "<="))
    bounds = [f"{tree[1]} {open if one[1] else closed} {json.dumps(one[0])}" for one, open, closed in signs if one]
    return "(" + " and ".join(bounds) + ")"


def _value_message(value):
    if isinstance(value, bool):
        return rerank_pb2.FilterValue(boolean_value=value)
    if isinstance(value, str):
        return rerank_pb2.FilterValue(string_value=value)
    if isinstance(value, int):
        return rerank_pb2.FilterValue(integer_value=value)
    return rerank_pb2.FilterValue(number_value=value)


def message_of(tree):
    """Returns the message of a filter."""
    node, message = tree[0], rerank_pb2.Filter()
    if node in ("and", "or"):
        (message.all_of if node == "and" else message.any_of).filters.extend(message_of(one) for one in tree[1])
    elif node == "not":
        message.negation.CopyFrom(message_of(tree[1]))
    elif node == "exists":
        message.exists = tree[1]
    elif node == "equals":
        message.equals.field = tree[1]
        message.equals.value.CopyFrom(_value_message(tree[2]))
    elif node == "in":
        message.is_in.field = tree[1]
        message.is_in.values.extend(_value_message(value) for value in tree[2])
    else:
        message.range.field = tree[1]
        for bound, place in ((tree[2], message.range.low), (tree[3], message.range.high)):
            if bound:
                place.value.CopyFrom(_value_message(bound[0]))
                place.exclusive = bound[1]
    return message

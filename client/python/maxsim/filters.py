"""Filters decide which candidates of a request are scored, by the fields that the collection declares.

    from maxsim import F
    client.rerank("docs", query, filter=(F.lang == "en") & (F.year >= 2020) & ~F.tags.is_in(["draft", "old"]))

A filter may also be a text (`'lang = "en" and year >= 2020'`), or a dict in the JSON form of the HTTP API."""

from __future__ import annotations

import copy
import datetime
import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from . import arguments
from .v1 import documents_pb2
from .v1 import rerank_pb2 as pb

# A time is a datetime with a time zone, or a string of RFC 3339.
Value: TypeAlias = "str | int | float | bool | datetime.datetime"

MAX_DEPTH = 32  # levels of a filter, the server's limit

_BOUNDS = {"gt": ("low", True), "gte": ("low", False), "lt": ("high", True), "lte": ("high", False)}
_KINDS = "and, or, not, or field with equals, in, gt, gte, lt, lte or exists"


class Filter:
    """A filter, made with F. `&` means and, `|` or, `~` not. Python gives these operators precedence over
    comparisons, so put comparisons into parentheses. Filters are immutable."""

    __slots__ = ("_tree",)

    def __init__(self, tree: Mapping[str, Any]) -> None:
        """Takes the JSON form. ValueError names the place of the error."""
        _fill(pb.Filter(), tree, "filter", 1)
        self._tree: dict[str, Any] = copy.deepcopy(dict(tree))

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form (docs/reference/filters.md)."""
        return copy.deepcopy(self._tree)

    def __and__(self, other: Filter) -> Filter:
        return self._joined("and", other)

    def __or__(self, other: Filter) -> Filter:
        return self._joined("or", other)

    def __invert__(self) -> Filter:
        return Filter({"not": self._tree})

    def __bool__(self) -> bool:
        raise TypeError("a filter is neither true nor false: join filters with & and |, negate one with ~")

    def __repr__(self) -> str:
        return f"Filter({self._tree!r})"

    def _joined(self, how: str, other: Filter) -> Filter:
        if not isinstance(other, Filter):
            return NotImplemented
        # A chain of one operator becomes one list, however long the chain is.
        children: list[Any] = []
        for one in (self, other):
            children.extend(one._tree[how] if how in one._tree else [one._tree])
        return Filter({how: children})


class FieldName:
    """A field of a collection. Its comparisons return filters: F.lang == "en". F["lang"] is the same field."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = arguments.text(name, "the name of a field")

    def __eq__(self, value: Value) -> Filter:  # type: ignore[override]
        return self._compared("equals", value)

    def __ne__(self, value: Value) -> Filter:  # type: ignore[override]
        return ~self._compared("equals", value)

    def __lt__(self, value: Value) -> Filter:
        return self._compared("lt", value)

    def __le__(self, value: Value) -> Filter:
        return self._compared("lte", value)

    def __gt__(self, value: Value) -> Filter:
        return self._compared("gt", value)

    def __ge__(self, value: Value) -> Filter:
        return self._compared("gte", value)

    __hash__ = None  # type: ignore[assignment]

    def is_in(self, values: Iterable[Value]) -> Filter:
        """Matches documents whose value is one of `values`. A list of keywords matches if one of its keywords is."""
        return self._compared("in", list(arguments.items(values, f"the values of {self._name}", "a list of values")))

    def exists(self) -> Filter:
        """Matches documents that have a value."""
        return self._compared("exists", True)

    def __bool__(self) -> bool:
        raise TypeError(f"the field {self._name} is neither true nor false: say F.{self._name} == True, or .exists()")

    def __repr__(self) -> str:
        return f"F[{self._name!r}]"

    def _compared(self, how: str, value: Any) -> Filter:
        return Filter({"field": self._name, how: value})


class Fields:
    """The type of F. Its attributes and items are fields."""

    def __getattr__(self, name: str) -> FieldName:
        if name.startswith("__"):
            raise AttributeError(name)
        return FieldName(name)

    def __getitem__(self, name: str) -> FieldName:
        return FieldName(name)


F = Fields()

FilterLike: TypeAlias = "Filter | str | Mapping[str, Any]"


def fill_filter(
    request: pb.RerankRequest
    | documents_pb2.CountRequest
    | documents_pb2.FacetsRequest
    | documents_pb2.ScrollRequest
    | documents_pb2.DeleteRequest,
    given: FilterLike | None,
) -> None:
    """Sets the request's filter, unless it is None. ValueError names the wrong part of the filter."""
    if given is None:
        return
    if isinstance(given, str):
        request.filter_text = arguments.text(given, "filter")
    elif isinstance(given, Filter):
        _fill(request.filter, given.to_dict(), "filter", 1)
    elif isinstance(given, Mapping):
        _fill(request.filter, given, "filter", 1)
    else:
        raise ValueError(f"filter is {arguments.shown(given)}; must be a text, a dict, or made with F, or None")


def _fill(message: pb.Filter, tree: Any, name: str, depth: int) -> None:
    """Fills a message from the JSON form. `name` is the place of `tree` in the filter, for errors."""
    if isinstance(tree, Filter):
        tree = tree.to_dict()
    if not isinstance(tree, Mapping):
        raise ValueError(f"{name} is {arguments.shown(tree)}; must be a dict with {_KINDS}")
    if depth > MAX_DEPTH:
        raise ValueError(f"filter is nested deeper than {MAX_DEPTH} levels")
    keys = set(tree)
    if keys in ({"and"}, {"or"}):
        (key,) = keys
        children = arguments.items(tree[key], f"{name}.{key}", "a list of filters")
        filters = (message.all_of if key == "and" else message.any_of).filters
        for i, child in enumerate(children):
            _fill(filters.add(), child, f"{name}.{key}[{i}]", depth + 1)
        if not filters:
            raise ValueError(f"{name}.{key} is empty; at least one filter is needed")
    elif keys == {"not"}:
        _fill(message.negation, tree["not"], f"{name}.not", depth + 1)
    elif "field" in keys and len(keys) > 1:
        _fill_comparison(message, tree, name, keys - {"field"})
    else:
        raise ValueError(f"{name} is {arguments.shown(tree)}; must be a dict with {_KINDS}")


def _fill_comparison(message: pb.Filter, tree: Mapping[str, Any], name: str, keys: set[str]) -> None:
    field = arguments.text(tree["field"], f"{name}.field")
    if keys == {"equals"}:
        message.equals.field = field
        _fill_value(message.equals.value, tree["equals"], f"{name}.equals")
    elif keys == {"in"}:
        message.is_in.field = field
        for i, value in enumerate(arguments.items(tree["in"], f"{name}.in", "a list of values")):
            _fill_value(message.is_in.values.add(), value, f"{name}.in[{i}]")
        if not message.is_in.values:
            raise ValueError(f"{name}.in is empty; at least one value is needed")
    elif keys == {"exists"}:
        if tree["exists"] is not True:
            raise ValueError(f"{name}.exists is {arguments.shown(tree['exists'])}; must be True")
        message.exists = field
    elif keys <= set(_BOUNDS) and len({_BOUNDS[key][0] for key in keys}) == len(keys):
        message.range.field = field
        for key in keys:
            side, exclusive = _BOUNDS[key]
            bound = message.range.low if side == "low" else message.range.high
            _fill_value(bound.value, tree[key], f"{name}.{key}")
            bound.exclusive = exclusive
    else:
        raise ValueError(f"{name} is {arguments.shown(tree)}; must be a dict with {_KINDS}")


def _fill_value(message: pb.FilterValue, value: Any, name: str) -> None:
    if isinstance(value, np.generic):
        value = value.item()
    accepted = "a string, an integer of 64 bits, a finite number, True, False, or a datetime with a time zone"
    integer = arguments.integer(value)
    if isinstance(value, str):
        message.string_value = arguments.text(value, name)
    elif isinstance(value, bool):
        message.boolean_value = value
    elif isinstance(value, datetime.datetime) and value.utcoffset() is not None:
        message.string_value = value.astimezone(datetime.timezone.utc).isoformat()
    elif integer is not None and -(2**63) <= integer < 2**63:
        message.integer_value = integer
    elif isinstance(value, float) and math.isfinite(value):
        message.number_value = value
    else:
        raise ValueError(f"{name} is {arguments.shown(value)}; must be {accepted}")

"""Translates Haystack's filter dictionaries into filters. Does not import Haystack.

https://docs.haystack.deepset.ai/docs/metadata-filtering describes the dictionaries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import arguments
from ..filters import MAX_DEPTH, Filter
from .comparisons import Comparison, Tree, join, negate

_BOUNDS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_COMPARISONS = ("==", "!=", *_BOUNDS, "in", "not in")
_LOGIC = ("AND", "OR", "NOT")
# Members of a Document that are outside its meta.
_OUTSIDE_META = {"id", "content", "blob", "score", "embedding", "sparse_embedding"}
_EXPECTED = "must be a dict with field, operator and value, or with operator (AND, OR, NOT) and conditions"


def to_filter(filters: Mapping[str, Any] | None) -> Filter | None:
    """Returns the filter that a dictionary describes. Returns None, which means all documents, if `filters` is None or
    empty.

    "meta.lang" and "lang" both name the collection's field "lang". ValueError names the place of the error, such as
    "filters.conditions[1]", and for a comparison also its operator and field."""
    if filters is None or (isinstance(filters, Mapping) and not filters):
        return None
    return Filter(_translate(filters, "filters", 1))


def _translate(given: Any, place: str, depth: int) -> Tree:
    if not isinstance(given, Mapping):
        raise ValueError(f"{place} is {arguments.shown(given)}; {_EXPECTED}")
    if depth > MAX_DEPTH:
        raise ValueError(f"filters is nested deeper than {MAX_DEPTH} levels")
    if "field" in given:
        return _comparison(given, place)
    if not {"operator", "conditions"} <= set(given):
        raise ValueError(f"{place} is {arguments.shown(dict(given))}; {_EXPECTED}")
    operator = given["operator"]
    if operator not in _LOGIC:
        raise ValueError(f"{place}.operator is {operator!r}; must be one of {', '.join(_LOGIC)}")
    conditions = arguments.items(given["conditions"], f"{place}.conditions", "a list of conditions")
    trees = [_translate(one, f"{place}.conditions[{i}]", depth + 1) for i, one in enumerate(conditions)]
    if not trees:
        raise ValueError(f"{place}.conditions is empty; {operator} takes at least one condition")
    if operator == "NOT":  # In Haystack, a document matches unless all conditions match.
        return negate(join("and", trees))
    return join(operator.lower(), trees)


def _comparison(given: Mapping[str, Any], place: str) -> Tree:
    for key in ("operator", "value"):
        if key not in given:
            raise ValueError(f"{place} is {arguments.shown(dict(given))}, without {key}; {_EXPECTED}")
    operator = given["operator"]
    field = _field_name(given["field"], f"{place}.field", operator)
    one = Comparison(place, field, str(operator), given["value"])
    if operator == "==":
        return _equals(one)
    if operator == "!=":
        return negate(_equals(one))
    if operator == "in":
        return _is_in(one)
    if operator == "not in":
        return negate(_is_in(one))
    if operator in _BOUNDS:
        # In Haystack, no document is greater or less than None.
        return one.nothing() if one.value is None else one.bounded(_BOUNDS[operator])
    raise one.error(f"is unknown; must be one of {', '.join(_COMPARISONS)}")


def _equals(one: Comparison) -> Tree:
    return negate(one.exists()) if one.value is None else one.equals()


def _is_in(one: Comparison) -> Tree:
    """Returns the tree of Haystack's "in". None in the list matches documents that have no value for the field."""
    values = one.values()
    present = Comparison(one.place, one.field, one.operator, [value for value in values if value is not None])
    if len(present.value) == len(values):
        return present.is_in()
    missing = negate(one.exists())
    return join("or", [present.is_in(), missing]) if present.value else missing


def _field_name(field: Any, place: str, operator: Any) -> str:
    """Returns the name of the collection's field."""
    if not isinstance(field, str):
        raise ValueError(f"{place} is {arguments.shown(field)}; must be a string such as 'meta.lang'")
    name = field.removeprefix("meta.")
    if name == field and name in _OUTSIDE_META:
        raise ValueError(f"{place} is {field!r}, which the operator {operator!r} cannot see: it is not in the meta")
    if "." in name:
        raise ValueError(
            f"{place} is {field!r}, which the operator {operator!r} cannot see: names of fields have no dots. "
            f"Declare a field with a name of its own and the path {name!r}, and filter by its name"
        )
    return name

"""Translates LlamaIndex's MetadataFilters into filters."""

# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilters

from ..filters import MAX_DEPTH, Filter, FilterLike
from .comparisons import Comparison, Tree, join, negate

_BOUNDS = {
    FilterOperator.GT: "gt",
    FilterOperator.GTE: "gte",
    FilterOperator.LT: "lt",
    FilterOperator.LTE: "lte",
}


def to_filter(filters: MetadataFilters | FilterLike | None) -> FilterLike | None:
    """Returns the filter that MetadataFilters describe. Returns None, which means all documents, if they are empty.
    Returns a filter of maxsim unchanged.

    ValueError names the place of the error, such as "filters.filters[1]", and for a comparison also its operator and
    key."""
    given: Any = filters
    if not isinstance(given, MetadataFilters):
        return given  # type: ignore[no-any-return,unused-ignore]
    return Filter(_translate(given, "filters", 1)) if given.filters else None


def _translate(given: Any, place: str, depth: int) -> Tree:
    if depth > MAX_DEPTH:
        raise ValueError(f"filters is nested deeper than {MAX_DEPTH} levels")
    if not isinstance(given, MetadataFilters):
        return _comparison(Comparison(place, given.key, given.operator.value, given.value), given.operator)
    trees = [_translate(one, f"{place}.filters[{i}]", depth + 1) for i, one in enumerate(given.filters)]
    if not trees:
        raise ValueError(f"{place}.filters is empty; at least one filter is needed")
    if given.condition == FilterCondition.NOT:  # In LlamaIndex, a document matches if no filter does.
        return negate(join("or", trees))
    return join("or" if given.condition == FilterCondition.OR else "and", trees)


def _comparison(one: Comparison, operator: Any) -> Tree:
    if operator in _BOUNDS:
        return one.bounded(_BOUNDS[operator])
    # EQ and CONTAINS mean the same here: equals() compares a field's one value, or each keyword of its list.
    if operator in (FilterOperator.EQ, FilterOperator.CONTAINS):
        return one.equals()
    if operator == FilterOperator.NE:
        return negate(one.equals())
    if operator in (FilterOperator.IN, FilterOperator.ANY):
        return one.is_in()
    if operator == FilterOperator.NIN:
        return negate(one.is_in())
    if operator == FilterOperator.ALL:
        return one.all_of()
    if operator == FilterOperator.IS_EMPTY:
        return negate(one.exists())
    raise one.error("cannot be evaluated: filters compare whole values, and do not search in texts")

"""Translates single comparisons of a framework's filter into trees of maxsim.filters. The filter translations of all
adapters use this module."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .. import arguments

# The JSON form of a filter: docs/reference/filters.md.
Tree: TypeAlias = "dict[str, Any]"

_SCALARS = "a string, a number, True, False or a datetime with a time zone"
_ORDERED = "a number, a string with a time (RFC 3339) or a datetime with a time zone"


@dataclass(frozen=True)
class Comparison:
    """One comparison of a filter: a field, an operator in the framework's spelling, and a value. `place` is the
    comparison's place in the filter, for errors. The methods that return trees raise ValueError, with the operator and
    the field, if they cannot compare with the value."""

    place: str
    field: str
    operator: str
    value: Any

    def error(self, problem: str) -> ValueError:
        """Returns an error that names the operator and the field."""
        return ValueError(f"{self.place}: the operator {self.operator!r} of the field {self.field!r} {problem}")

    def equals(self) -> Tree:
        """Returns the tree of "the field's value is this"."""
        return {"field": self.field, "equals": self._scalar(self.value)}

    def is_in(self) -> Tree:
        """Returns the tree of "the field's value is one of these". No document matches an empty list."""
        values = [self._scalar(value, f"[{i}]") for i, value in enumerate(self.values())]
        return {"field": self.field, "in": values} if values else self.nothing()

    def all_of(self) -> Tree:
        """Returns the tree of "the field's list has each of these". An empty list matches any field with a value."""
        values = [self._scalar(value, f"[{i}]") for i, value in enumerate(self.values())]
        return join("and", [{"field": self.field, "equals": value} for value in values] or [self.exists()])

    def bounded(self, bound: str) -> Tree:
        """Returns the tree of a range with one bound: "gt", "gte", "lt" or "lte"."""
        if isinstance(self.value, (bool, np.bool_)) or not _is_scalar(self.value):
            raise self.error(f"cannot take {arguments.shown(self.value)}; it takes {_ORDERED}")
        return {"field": self.field, bound: self.value}

    def exists(self) -> Tree:
        """Returns the tree of "the field has a value"."""
        return {"field": self.field, "exists": True}

    def nothing(self) -> Tree:
        """Returns a tree that no document matches. It names the field, so that the server still checks that the field
        exists."""
        return {"and": [self.exists(), negate(self.exists())]}

    def values(self) -> Sequence[Any]:
        """Returns the value, which must be a list."""
        if not isinstance(self.value, (list, tuple, set, frozenset)):
            raise self.error(f"cannot take {arguments.shown(self.value)}; it takes a list of values")
        return list(self.value)

    def _scalar(self, value: Any, index: str = "") -> Any:
        if not _is_scalar(value):
            position = f" at {index}" if index else ""
            raise self.error(f"cannot take {arguments.shown(value)}{position}; it takes {_SCALARS}")
        return value


def join(how: str, trees: Sequence[Tree]) -> Tree:
    """Returns the "and" or the "or" of at least one tree."""
    return trees[0] if len(trees) == 1 else {how: list(trees)}


def negate(tree: Tree) -> Tree:
    """Returns the tree of "does not match"."""
    return {"not": tree}


def _is_scalar(value: Any) -> bool:
    """Says whether a filter can compare with the value."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, datetime.datetime):
        return value.utcoffset() is not None
    if isinstance(value, float):
        return math.isfinite(value)
    integer = arguments.integer(value)
    return isinstance(value, (str, bool)) or (integer is not None and -(2**63) <= integer < 2**63)

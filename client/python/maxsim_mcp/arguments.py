"""Checks the arguments of a tool's call. A wrong one raises a ToolError that names it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from maxsim.arguments import is_unicode, shown

from .failures import wrong_argument


def check_names(given: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Raises if an argument is unknown, or a required one is missing."""
    for name in given:
        if name not in schema["properties"]:
            raise wrong_argument(name, f"unknown argument; this tool takes {', '.join(schema['properties']) or 'none'}")
    for name in schema["required"]:
        if name not in given:
            raise wrong_argument(name, "is missing")


def text(given: Mapping[str, Any], name: str, schema: Mapping[str, Any]) -> str | None:
    """Returns a string, or the schema's default if it is left out (None if there is none)."""
    bounds = schema["properties"][name]
    value = given.get(name, bounds.get("default"))
    if value is None:
        return None
    return _checked(value, name, bounds["minLength"], bounds["maxLength"])


def needed_text(given: Mapping[str, Any], name: str, schema: Mapping[str, Any]) -> str:
    """Returns a string that must not be left out."""
    value = text(given, name, schema)
    if value is None:
        raise wrong_argument(name, "is missing")
    return value


def integer(given: Mapping[str, Any], name: str, schema: Mapping[str, Any]) -> int:
    """Returns an integer within the schema's bounds, or the default."""
    bounds = schema["properties"][name]
    least, most = bounds["minimum"], bounds["maximum"]
    value = given.get(name, bounds["default"])
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON has one kind of number.
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_argument(name, f"is {shown(value)}; must be an integer from {least} to {most}")
    if value > most:
        raise wrong_argument(name, f"is {shown(value)}; the largest accepted is {most}", most)
    if value < least:
        raise wrong_argument(name, f"is {shown(value)}; must be an integer from {least} to {most}")
    return value


def document_id(given: Mapping[str, Any], name: str, schema: Mapping[str, Any]) -> str | int:
    value = given.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, str):
        return _checked(value, name, 1, schema["properties"][name]["maxLength"])
    raise wrong_argument(name, f"is {shown(value)}; must be a string or an integer of 64 bits")


def digits_value(document_id: str | int) -> int | None:
    """Returns the integer that a string id spells, if it fits in 64 bits. Returns None for all other ids."""
    if not isinstance(document_id, str) or not re.fullmatch("-?[0-9]{1,19}", document_id):
        return None
    value = int(document_id)
    return value if -(2**63) <= value < 2**63 else None


def _checked(value: Any, name: str, least: int, most: int) -> str:
    if not isinstance(value, str):
        raise wrong_argument(name, f"is {shown(value)}; must be a string")
    if len(value) < least:
        raise wrong_argument(name, "is empty")
    if len(value) > most:
        raise wrong_argument(name, f"has {len(value)} characters; the limit is {most}", most)
    if not is_unicode(value):
        raise wrong_argument(name, "holds half of a surrogate pair; must be Unicode text")
    return value

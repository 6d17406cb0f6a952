"""Makes a bounded excerpt of a document's payload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import limits

# The member with the text of each token, for the tool `explain`. It is too long to show in an excerpt.
_TOKENS = "tokens"


def excerpt(payload: Any, title_key: str, text_key: str, max_text_chars: int) -> dict[str, Any]:
    """Returns a dict with `title`, `text` (and `text_cut` if it was cut), and other members of the payload in `fields`
    (and the number of members without room in `fields_left_out`). Long strings are cut. Other long values and nested
    values are left out."""
    if not isinstance(payload, Mapping):
        return {}
    found: dict[str, Any] = {}
    title, text = payload.get(title_key), payload.get(text_key)
    if isinstance(title, str):
        found["title"] = cut(title, limits.MAX_VALUE_CHARS)
    if isinstance(text, str) and max_text_chars > 0:
        found["text"] = cut(text, max_text_chars)
        if len(text) > max_text_chars:
            found["text_cut"] = True
    used = {name for name, value in ((title_key, title), (text_key, text)) if isinstance(value, str)}
    fields: dict[str, Any] = {}
    left_out, num_chars = 0, 0
    for name, value in payload.items():
        if name in used or (name == _TOKENS and isinstance(value, list)):
            continue
        short = _shortened(value)
        size = len(name) + len(str(short))
        if short is None or len(fields) == limits.MAX_FIELDS or num_chars + size > limits.MAX_FIELDS_CHARS:
            left_out += 1
        else:
            fields[name] = short
            num_chars += size
    if fields:
        found["fields"] = fields
    if left_out:
        found["fields_left_out"] = left_out
    return found


def cut(text: str, most: int) -> str:
    """Returns a text of at most `most` characters. A longer text is cut, and ends with an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _shortened(value: Any) -> Any:
    """Returns the value, or a shorter form of it, or None if it cannot be shown."""
    if isinstance(value, str):
        return cut(value, limits.MAX_VALUE_CHARS)
    if isinstance(value, (bool, float)) or (isinstance(value, int) and abs(value) < 2**64):
        return value
    if isinstance(value, list) and len(value) <= limits.MAX_FIELD_ITEMS:
        items = [None if isinstance(item, (list, Mapping)) else _shortened(item) for item in value]
        return None if None in items else items
    return None

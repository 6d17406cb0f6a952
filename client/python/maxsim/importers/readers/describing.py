"""Describes values of unknown origin in a few words, for errors."""

from __future__ import annotations

import numpy as np

# The number of a container's items that are shown.
_ITEMS = 8
# For a longer integer, only its size is shown: computing its digits takes quadratic time.
_INTEGER_BITS = 256


def describe(value: object, length: int = 60) -> str:
    """Returns `value` in about `length` characters. Names nested containers without their content, because a pickle
    may share containers so often that their text exceeds any memory."""
    if isinstance(value, (list, tuple)):
        items = [_item(item, length) for item in value[:_ITEMS]] + ["..."] * (len(value) > _ITEMS)
        text = ", ".join(items) + ("," if isinstance(value, tuple) and len(value) == 1 else "")
        text = f"[{text}]" if isinstance(value, list) else f"({text})"
    else:
        text = _item(value, length)
    return text if len(text) <= length else text[: length - 3] + "..."


def _item(value: object, length: int) -> str:
    if isinstance(value, int) and value.bit_length() > _INTEGER_BITS:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, (str, bytes, bytearray)):
        return repr(value[:length])
    if value is None or isinstance(value, (bool, int, float, np.number, np.bool_)):
        return str(value)
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        return f"a {type(value).__name__} of {len(value)} items"
    return f"a {type(value).__name__}"

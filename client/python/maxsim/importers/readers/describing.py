"""Short texts of values of unknown origin, for errors."""

from __future__ import annotations

import numpy as np

# Items of a container that are shown.
_ITEMS = 8
# Longer integers are told by their size: their digits take quadratic time.
_INTEGER_BITS = 256


def describe(value: object, length: int = 60) -> str:
    """`value` in about `length` characters. Containers inside containers are named and not entered: a pickle may share
    them in such a way that its text has more characters than there is memory."""
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

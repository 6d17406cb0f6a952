"""Parses JSON and refuses objects with a repeated key. Python's own parser silently keeps the last one."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Tuple, Union


class RepeatedKeyError(ValueError):
    """An object repeats a key."""


def unique_keys(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    """An object_pairs_hook for json. Raises RepeatedKeyError with the name of a repeated key."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in made if names.count(name) > 1)
        raise RepeatedKeyError(f"key {json.dumps(repeated)[:80]} appears twice in one object")
    return made


def parse_json(text: Union[str, bytes]) -> Any:
    """Like json.loads(text), but refuses repeated keys."""
    return json.loads(text, object_pairs_hook=unique_keys)

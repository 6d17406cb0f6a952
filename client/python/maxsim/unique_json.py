"""JSON whose objects must not name a key twice. Python's own parser keeps the last one without a word."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Tuple, Union


def unique_keys(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    """An object_pairs_hook of json. ValueError names a key that appears twice."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in made if names.count(name) > 1)
        raise ValueError(f"key {json.dumps(repeated)[:80]} appears twice in one object")
    return made


def parse_json(text: Union[str, bytes]) -> Any:
    """json.loads(text) with unique keys."""
    return json.loads(text, object_pairs_hook=unique_keys)

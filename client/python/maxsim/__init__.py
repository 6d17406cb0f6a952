"""Client of maxsimd, the rerank service for late-interaction retrieval: token vectors in, ranked documents out.

Names are imported when they are first used: what needs no server (maxsim.vectors, maxsim.collection, maxsim.importers)
does not import grpc.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import Client as Client
    from .client import Document as Document
    from .client import Ranking as Ranking
    from .client import token_matrix as token_matrix
    from .vectors import TokenVectors as TokenVectors
    from .vectors import token_vectors as token_vectors

__version__ = "0.2.0"

_MODULES = {
    "Client": "client",
    "Document": "client",
    "Ranking": "client",
    "TokenVectors": "vectors",
    "token_matrix": "client",
    "token_vectors": "vectors",
}

__all__ = ["Client", "Document", "Ranking", "TokenVectors", "token_matrix", "token_vectors"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})

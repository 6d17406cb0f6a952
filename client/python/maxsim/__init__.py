"""Client of maxsimd, the rerank service for late-interaction retrieval: token vectors in, ranked documents out.

Names are imported when they are first used, so that the parts which need no server (maxsim.vectors,
maxsim.collection, maxsim.importers) do not import grpc.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .aio import AsyncClient as AsyncClient
    from .client import Client as Client
    from .documents import DeleteSummary as DeleteSummary
    from .documents import Facets as Facets
    from .documents import FacetValue as FacetValue
    from .documents import NewDocument as NewDocument
    from .documents import StoredDocument as StoredDocument
    from .documents import StoredDocuments as StoredDocuments
    from .documents import UpsertSummary as UpsertSummary
    from .documents import WriteResult as WriteResult
    from .documents import WriteResults as WriteResults
    from .errors import MaxsimError as MaxsimError
    from .filters import F as F
    from .filters import Filter as Filter
    from .methods import ServedCollection as ServedCollection
    from .ranking import Document as Document
    from .ranking import Explanation as Explanation
    from .ranking import Ranking as Ranking
    from .ranking import Refinement as Refinement
    from .requests import RefinementOptions as RefinementOptions
    from .requests import Request as Request
    from .requests import token_matrix as token_matrix
    from .retries import Retry as Retry
    from .streams import StreamAnswer as StreamAnswer
    from .vectors import TokenVectors as TokenVectors
    from .vectors import token_vectors as token_vectors

__version__ = "0.2.0"

__all__ = [
    "AsyncClient",
    "Client",
    "DeleteSummary",
    "Document",
    "Explanation",
    "F",
    "FacetValue",
    "Facets",
    "Filter",
    "MaxsimError",
    "NewDocument",
    "Ranking",
    "Refinement",
    "RefinementOptions",
    "Request",
    "Retry",
    "ServedCollection",
    "StoredDocument",
    "StoredDocuments",
    "StreamAnswer",
    "TokenVectors",
    "UpsertSummary",
    "WriteResult",
    "WriteResults",
    "token_matrix",
    "token_vectors",
]

_MODULES = {
    "AsyncClient": "aio",
    "Client": "client",
    "DeleteSummary": "documents",
    "Document": "ranking",
    "Explanation": "ranking",
    "F": "filters",
    "FacetValue": "documents",
    "Facets": "documents",
    "Filter": "filters",
    "MaxsimError": "errors",
    "NewDocument": "documents",
    "Ranking": "ranking",
    "Refinement": "ranking",
    "RefinementOptions": "requests",
    "Request": "requests",
    "Retry": "retries",
    "ServedCollection": "methods",
    "StoredDocument": "documents",
    "StoredDocuments": "documents",
    "StreamAnswer": "streams",
    "TokenVectors": "vectors",
    "UpsertSummary": "documents",
    "WriteResult": "documents",
    "WriteResults": "documents",
    "token_matrix": "requests",
    "token_vectors": "vectors",
}

# gRPC prints its own lines about a failed TLS handshake, which the errors of this package already explain. gRPC reads
# this variable when it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""One interface for all models that turn texts into token vectors."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Sequence
from typing import Any, Protocol

from ..vectors import TokenVectors, token_vectors


class TextEncoder(Protocol):
    """The interface of an encoder that a user writes. Adapters take such an object as `encoder`, and also models of
    sentence-transformers and PyLate."""

    def encode_query(self, inputs: list[str], /) -> Sequence[Any]:
        """Returns the token vectors of each query: arrays or tensors [tokens, dim]."""
        ...

    def encode_document(self, inputs: list[str], /) -> Sequence[Any]:
        """Returns the token vectors of each document: arrays or tensors [tokens, dim]."""
        ...


class LockedEncoder:
    """Calls a model from one thread at a time, because tokenizers of Transformers fail if two threads use them."""

    def __init__(self, model: Any) -> None:
        """`model`: a MultiVectorEncoder of sentence-transformers, a models.ColBERT of PyLate, or a TextEncoder."""
        self._model = model
        # Models of PyLate also have encode_query and encode_document, inherited from SentenceTransformer, but these do
        # not treat queries and documents differently. So PyLate's encode(is_query=...) is looked for first.
        self._is_pylate = _takes(getattr(model, "encode", None), "is_query")
        if not self._is_pylate and not (hasattr(model, "encode_query") and hasattr(model, "encode_document")):
            raise TypeError(
                f"encoder is a {type(model).__name__}; must be a MultiVectorEncoder of sentence-transformers, a ColBERT"
                " of PyLate, or an object with encode_query(texts) and encode_document(texts)"
            )
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self._model}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["model"])  # type: ignore[misc]

    def query(self, text: str) -> TokenVectors:
        """Returns the token vectors of a query."""
        return self._encode([text], "query")[0]

    def documents(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Returns the token vectors of each document."""
        return self._encode(list(texts), "document")

    def _encode(self, texts: list[str], kind: str) -> list[TokenVectors]:
        with self._lock:
            if self._is_pylate:
                matrices = self._model.encode(texts, is_query=kind == "query", show_progress_bar=False)
            else:
                encode = self._model.encode_query if kind == "query" else self._model.encode_document
                # A progress bar for one query is noise. A user's encoder may not take the option.
                options = {"show_progress_bar": False} if _takes(encode, "show_progress_bar") else {}
                matrices = encode(texts, **options)
        if len(matrices) != len(texts):
            raise ValueError(f"encoder answered {len(texts)} texts with {len(matrices)} arrays")
        return [token_vectors(matrix, name=f"the encoder's {kind} {i}") for i, matrix in enumerate(matrices)]


def _takes(function: Any, parameter: str) -> bool:
    try:
        return function is not None and parameter in inspect.signature(function).parameters
    except (TypeError, ValueError):  # not a function, or one without a readable signature
        return False

"""Builds documents from entities of Milvus that are one token each."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from maxsim.bfloat16 import widen_bfloat16
from maxsim.collection.errors import quote_id
from maxsim.importers.source import SourceError

_TOKENS_AT_ONCE = 2000
_IDS_AT_ONCE = 16_000
# If a document's tokens are not stored together, documents are requested by their ids, in groups of at most this many
# tokens. A longer document forms its own group.
_GATHERED_TOKENS = 8000

Id = Union[int, str]
Entity = Dict[str, Any]
Document = Tuple[Id, np.ndarray, Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class VectorField:
    """A vector field. data_type is "f32", "f16" or "bf16"."""

    name: str
    dim: int
    data_type: str

    def read(self, value: Any, where: str) -> np.ndarray:
        """Converts a vector that pymilvus returned: a list of floats, or the bytes of two-byte values. Returns
        float32."""
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], bytes):
            value = value[0]
        if isinstance(value, bytes) and self.data_type == "bf16" and len(value) == 2 * self.dim:
            return widen_bfloat16(np.frombuffer(value, "<u2"))
        if isinstance(value, bytes) and self.data_type == "f16" and len(value) == 2 * self.dim:
            return np.frombuffer(value, "<f2").astype(np.float32)
        vector = np.asarray(value)
        if vector.shape == (self.dim,) and vector.dtype.kind == "f":
            return vector.astype(np.float32)
        raise SourceError(
            f"{where}: field {self.name!r} holds {value!r:.80}; must be a vector of {self.dim} {self.data_type}"
        )


class TokenEntities:
    """The documents of entities with the fields `id`, `vectors` and, optionally, `token`, the position.

    Reads all ids first, and keeps each document's number of tokens and whether its tokens are adjacent in the order of
    the primary keys. If the tokens of all documents are adjacent, one pass reads the vectors. Otherwise documents are
    requested by their ids."""

    def __init__(
        self,
        where: str,
        query: Callable[[str, Sequence[str], int], Iterator[List[Entity]]],
        id: str,
        token: Optional[str],
        vectors: VectorField,
        columns: Sequence[str],
    ) -> None:
        self._where = where
        self._query = query
        self._id = id
        self._token = token
        self._vectors = vectors
        self._columns = columns
        self._counts: Dict[Id, int] = {}
        self._is_together = True
        last: Optional[Id] = None
        for entities in query("", [id], _IDS_AT_ONCE):
            for entity in entities:
                document = self._id_of(entity)
                if document != last and document in self._counts:
                    self._is_together = False
                self._counts[document] = self._counts.get(document, 0) + 1
                last = document
        self.num_documents = len(self._counts)
        self.num_tokens = sum(self._counts.values())

    def documents(self) -> Iterator[Document]:
        """Yields each document's id, vectors and first token."""
        return self._in_order() if self._is_together else self._gathered()

    def _id_of(self, entity: Entity) -> Id:
        id = entity.get(self._id)
        if isinstance(id, bool) or not isinstance(id, (int, str)):
            raise SourceError(f"{self._where}: field {self._id!r} is {id!r:.80}; must be a string or an integer")
        return id

    def _entities(self, expression: str) -> Iterator[Entity]:
        names = [self._id, self._vectors.name, *([self._token] if self._token else []), *self._columns]
        for entities in self._query(expression, list(dict.fromkeys(names)), _TOKENS_AT_ONCE):
            yield from entities

    def _in_order(self) -> Iterator[Document]:
        tokens: List[Entity] = []
        for entity in self._entities(""):
            if tokens and self._id_of(entity) != tokens[0][self._id]:
                yield self._document(tokens[0][self._id], tokens)
                tokens = []
            tokens.append(entity)
        if tokens:
            yield self._document(tokens[0][self._id], tokens)

    def _gathered(self) -> Iterator[Document]:
        ids: List[Id] = []
        num_tokens = 0
        for id, count in self._counts.items():
            if ids and num_tokens + count > _GATHERED_TOKENS:
                yield from self._gather(ids)
                ids, num_tokens = [], 0
            ids.append(id)
            num_tokens += count
        yield from self._gather(ids)

    def _gather(self, ids: List[Id]) -> Iterator[Document]:
        if not ids:
            return
        documents: Dict[Id, List[Entity]] = {id: [] for id in ids}
        for entity in self._entities(f"{self._id} in {json.dumps(ids, ensure_ascii=False)}"):
            documents[self._id_of(entity)].append(entity)
        for id, tokens in documents.items():
            yield self._document(id, tokens)

    def _document(self, id: Id, tokens: List[Entity]) -> Document:
        where = f"{self._where}: document {quote_id(id)}"
        if len(tokens) != self._counts.get(id):
            raise SourceError(
                f"{where}: has {len(tokens)} tokens, but had {self._counts.get(id)} before: is something writing to it?"
            )
        token = self._token
        if token is not None:
            try:
                tokens.sort(key=lambda entity: int(entity[token]))
            except (TypeError, ValueError, KeyError):
                raise SourceError(f"{where}: a token's {token!r} is not an integer") from None
        return id, np.stack([self._vectors.read(entity[self._vectors.name], where) for entity in tokens]), tokens[0]

"""PyLate: `rerank` in place of pylate.rank.rerank, and `MaxsimIndex` for pylate.retrieve.ColBERT."""

# pyright: reportMissingImports=false

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pylate.indexes.base import Base
from pylate.rank import RerankResult

from ..client import Client
from ..documents import NewDocument
from ..filters import FilterLike
from ..requests import Id
from ..v1 import rerank_pb2 as pb
from ..vectors import token_vectors
from .scorer import Candidates, Scorer, as_id, check_filter

if TYPE_CHECKING:
    from ..collection import CollectionWriter

# So that an answer with vectors of long documents stays below what a message may have.
_VECTORS_AT_A_TIME = 50

# A list of arrays or tensors [tokens, dim], an array or a tensor [count, tokens, dim], or a single one [tokens, dim].
Embeddings = Any


def rerank(
    documents_ids: Sequence[Sequence[Id]],
    queries_embeddings: Embeddings,
    documents_embeddings: Sequence[Embeddings] | None = None,
    device: str | None = None,
    *,
    target: str | None = None,
    collection: str = "",
    client_options: Mapping[str, Any] | None = None,
) -> list[list[RerankResult]]:
    """Ranks each query's documents, as pylate.rank.rerank does, on a maxsimd: `target`, with `client_options`, as
    maxsim.Client takes it.

    With `documents_embeddings`, [query][document] matrices of [tokens, dim], these are scored, as float16 or in the
    storage type of `collection`. Without it `documents_ids` name documents that `collection` holds; one that it does
    not hold is an error. `device` is taken for the signature's sake: the server has its own.

    Scores are MaxSim. PyLate pads the documents of a query to one length with zeros, which count there: a query token
    whose best similarity with a shorter document is negative adds 0 to its score in PyLate and that similarity here."""
    scorer = Scorer(target, collection=collection, client_options=client_options)
    queries = as_list(queries_embeddings)
    if documents_embeddings is None and not collection:
        raise ValueError("documents_embeddings is missing, and so is the collection that holds the documents")
    _check_length("documents_ids", documents_ids, len(queries))
    if documents_embeddings is not None:
        _check_length("documents_embeddings", documents_embeddings, len(queries))
    results = []
    try:
        for i, query in enumerate(queries):
            ids = [as_id(id, f"documents_ids[{i}][{j}]") for j, id in enumerate(documents_ids[i])]
            if documents_embeddings is None:
                candidates = Candidates(ids=ids)
            else:
                matrices = as_list(documents_embeddings[i])
                _check_length(f"documents_embeddings[{i}]", matrices, len(ids))
                names = (f"documents_embeddings[{i}][{j}]" for j in range(len(ids)))
                candidates = Candidates(vectors=[token_vectors(one, name=name) for one, name in zip(matrices, names)])
            scored = scorer.rank(token_vectors(query, name=f"queries_embeddings[{i}]"), candidates)
            results.append([RerankResult(id=ids[position], score=score) for position, score in scored])
    finally:
        scorer.close()
    return results


class MaxsimIndex(Base):  # type: ignore[misc,unused-ignore]
    """A collection that a maxsimd serves, as an index of PyLate. Every search scores all of its documents, or the
    `subset`, or those that match `filter`, exactly. The attribute `filter` may be set at any time.

    A collection is written whole, or it is live. Without `live`, add_documents collects documents on the disk, and
    publish(), the first search or leaving a `with` block writes the collection and, with `load`, has the server serve
    it; after that the index takes no more documents. With live=True documents are written to, and removed from, the
    live collection of the server, one call at a time, and the next search sees them."""

    is_end_to_end_index = True

    def __init__(
        self,
        collection: str = "colbert",
        target: str | None = None,
        *,
        folder: str | pathlib.Path | None = None,
        load: bool = True,
        server_folder: str | None = None,
        storage: str | None = None,
        override: bool = False,
        live: bool = False,
        filter: FilterLike | None = None,
        fields: str | None = None,
        client_options: Mapping[str, Any] | None = None,
    ) -> None:
        """`collection`: its name. `target`: the server, as maxsim.Client takes it; `client_options`: further arguments
        of it. `filter`: which documents a search scores, by the collection's fields: made with maxsim.F, a text, or a
        dict. `live`: the collection is live; where the server has none of the name, the first add_documents makes an
        empty one there, in `storage` ("f16" by default), which the server must permit, and with the ids' type of its
        documents. `fields`: the fields of a collection that add_documents makes, such as "lang:keyword,year:integer";
        their values are read from payloads. The rest is for add_documents without `live`: `folder` is where the
        collection is written; `load` says whether the server is then told to serve it, which it must permit
        (store.allowed_roots); `server_folder` is the folder's path on the server's machine, where that is another;
        `storage` is that of CollectionWriter; `override` permits the next generation of a collection that is in the
        folder."""
        check_filter(filter)
        self.filter = filter
        self._fields = fields
        self._collection = collection
        self._folder = None if folder is None else pathlib.Path(folder)
        self._load = load
        self._server_folder = server_folder
        self._storage = storage
        self._override = override
        self._live = live
        self._scorer = Scorer(target, collection=collection, missing_policy="report", client_options=client_options)
        self._writer: CollectionWriter | None = None
        self._published = False
        self._to_load = False
        self._made_live = False

    def __enter__(self) -> MaxsimIndex:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is None:
            self.publish()
        elif self._writer is not None:
            self._writer.abort()
            self._writer = None
        self.close()

    def close(self) -> None:
        """Ends the connection; a later call connects again."""
        self._scorer.close()

    def add_documents(  # type: ignore[override,unused-ignore]
        self,
        documents_ids: Id | Sequence[Id],
        documents_embeddings: Embeddings,
        batch_size: int | None = None,
        *,
        payloads: Sequence[Mapping[str, Any] | None] | None = None,
    ) -> MaxsimIndex:
        """Adds documents to the collection that is about to be published, or to the live one, where they replace those
        of the same ids; see the class. `payloads`: a JSON object for each document, with the values of its fields.
        `batch_size` is taken for the signature's sake."""
        ids = [documents_ids] if isinstance(documents_ids, (str, int)) else list(documents_ids)
        matrices = as_list(documents_embeddings)
        _check_length("documents_embeddings", matrices, len(ids))
        objects = [None] * len(ids) if payloads is None else list(payloads)
        _check_length("payloads", objects, len(ids))
        documents = [
            (as_id(id, f"documents_ids[{i}]"), token_vectors(matrix, name=f"documents_embeddings[{i}]"), payload)
            for i, (id, matrix, payload) in enumerate(zip(ids, matrices, objects))
        ]
        if not self._live:
            for id, vectors, payload in documents:
                self._open_writer(vectors.dim).add(id, vectors, payload)
        elif documents:
            self._make_live(documents[0][1].dim, documents[0][0])
            made = [NewDocument(id, vectors, payload=payload) for id, vectors, payload in documents]
            self._client.upsert(self._collection, made)
        return self

    def publish(self) -> MaxsimIndex:
        """Writes the collection of the documents that were added, and has the server serve it. Does nothing where none
        were added. Where the server refuses, another call asks it again."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self._published = True
            self._to_load = self._load
        if self._to_load:
            if self._served_path() is None:
                self._client.load(self._collection, self._path_to_load())
            else:
                self._client.reload(self._collection)
            self._to_load = False
        return self

    def remove_documents(self, documents_ids: Sequence[Id]) -> None:
        """Removes documents from a live collection; ids that it does not hold are passed over."""
        if not self._live:
            raise NotImplementedError(
                "documents are removed from a live collection alone: give live=True, or write the collection anew "
                "without them, with override=True"
            )
        ids: Any = [as_id(id, f"documents_ids[{i}]") for i, id in enumerate(documents_ids)]
        if ids:
            self._client.delete(self._collection, ids)

    def update_documents(
        self,
        documents_ids: Sequence[Id],
        documents_embeddings: Embeddings,
        *,
        payloads: Sequence[Mapping[str, Any] | None] | None = None,
    ) -> None:
        """Replaces documents of a live collection, with their payloads; those that it does not hold are added."""
        if not self._live:
            raise NotImplementedError(
                "documents are replaced in a live collection alone: give live=True, or write the collection anew with "
                "them, with override=True"
            )
        self.add_documents(documents_ids, documents_embeddings, payloads=payloads)

    def get_documents_embeddings(self, documents_ids: Sequence[Sequence[Id]]) -> list[list[Any]]:
        """Returns the vectors of each list's documents, float32 [tokens, dim], as the collection stores them.
        retrieve.ColBERT does not ask an index for them that ranks by itself. KeyError: the collection does not hold an
        id. Vectors of an i8 collection are quantised and rotated, and are refused."""
        served = self._served()
        if served is not None and served.storage == pb.DATA_TYPE_I8:
            raise NotImplementedError(
                f"the collection {self._collection!r} is stored as i8, rotated: its vectors are not those of the model"
            )
        return [self._embeddings(list(ids)) for ids in documents_ids]

    def __call__(
        self,
        queries_embeddings: Embeddings,
        k: int = 10,
        subset: Sequence[Sequence[Id]] | Sequence[Id] | None = None,
        filter: FilterLike | None = None,
    ) -> list[list[RerankResult]]:
        """Returns the best `k` documents of each query, of all or of `subset`: one list of ids, or a list for each
        query. Ids of a subset that the collection does not hold are passed over. `filter`: only documents that match it
        are scored; None: the index's own filter."""
        self.publish()
        filter = self.filter if filter is None else filter
        queries = [
            token_vectors(one, name=f"queries_embeddings[{i}]") for i, one in enumerate(as_list(queries_embeddings))
        ]
        subsets = None if subset is None else _subsets(subset, len(queries))
        return [
            [RerankResult(id=id, score=score) for id, score in hits]
            for hits in self._scorer.search(queries, k, subsets, filter)
        ]

    @property
    def _client(self) -> Client:
        return self._scorer.client

    def _path_to_load(self) -> str:
        """Returns the folder's path on the server's machine."""
        assert self._folder is not None
        return self._server_folder or str(self._folder.resolve())

    def _served(self) -> pb.CollectionInfo | None:
        """Returns the collection that the server has under the name; None if it has none."""
        return {one.name: one for one in self._client.info().collections}.get(self._collection)

    def _served_path(self) -> str | None:
        served = self._served()
        return None if served is None else served.path

    def _make_live(self, dim: int, id: Id) -> None:
        """Makes the live collection where the server has none of the name."""
        if self._made_live:
            return
        if self._served() is None:
            storage: Any = self._storage or "f16"
            id_type: Any = "string" if isinstance(id, str) else "int64"
            fields = self._fields or ""
            self._client.create_collection(self._collection, dim, storage=storage, id_type=id_type, fields=fields)
        self._made_live = True

    def _embeddings(self, ids: list[Id]) -> list[Any]:
        found: dict[Id, Any] = {}
        for first in range(0, len(ids), _VECTORS_AT_A_TIME):
            some: Any = ids[first : first + _VECTORS_AT_A_TIME]
            answer = self._client.get(self._collection, some, return_tokens=True)
            if answer.missing:
                raise KeyError(f"the collection {self._collection!r} does not hold {answer.missing[0]!r}")
            found.update((document.id, document.tokens) for document in answer)
        return [found[id] for id in ids]

    def _open_writer(self, dim: int) -> CollectionWriter:
        if self._writer is not None:
            return self._writer
        if self._published:
            raise NotImplementedError(
                f"the collection {self._collection!r} is published, and maxsimd cannot add to it: give all documents "
                "before the first search, or write it anew with override=True"
            )
        if self._folder is None:
            raise ValueError("folder is missing: add_documents writes the collection there")
        if not self._override and (self._folder / "collection.json").exists():
            raise ValueError(f"{self._folder} holds a collection; override=True writes the next generation of it")
        served = self._served_path() if self._load else None
        if served not in (None, self._path_to_load()):
            raise ValueError(f"the server has the folder {served!r} as {self._collection!r}: choose another name")
        # Searching needs none of the packages that writing does.
        from ..collection import CollectionWriter

        self._writer = CollectionWriter(
            self._folder, dim=dim, storage=self._storage, name=self._collection, fields=self._fields
        )
        return self._writer


def as_list(embeddings: Embeddings) -> list[Any]:
    """Returns the matrices of `Embeddings`, each [tokens, dim]."""
    if getattr(embeddings, "ndim", None) == 2:
        return [embeddings]
    return list(embeddings)


def _subsets(subset: Any, num_queries: int) -> list[list[Id]]:
    """Returns the ids of each query."""
    subset = list(subset)
    if subset and not isinstance(subset[0], (str, int)) and hasattr(subset[0], "__len__"):
        _check_length("subset", subset, num_queries)
        return [[as_id(id, f"subset[{i}][{j}]") for j, id in enumerate(one)] for i, one in enumerate(subset)]
    ids = [as_id(id, f"subset[{i}]") for i, id in enumerate(subset)]
    return [ids] * num_queries


def _check_length(name: str, values: Sequence[Any], wanted: int) -> None:
    if len(values) != wanted:
        raise ValueError(f"{name} has the length {len(values)}; {wanted} are expected")

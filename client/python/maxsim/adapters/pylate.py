"""PyLate: `rerank` replaces pylate.rank.rerank, and `MaxsimIndex` replaces pylate.retrieve.ColBERT with its index."""

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

# The number of documents whose vectors one request reads, so that the answer stays below gRPC's limit on messages.
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
    """Ranks each query's documents with a maxsimd, as pylate.rank.rerank does. `target` and `client_options` are
    arguments of maxsim.Client.

    With `documents_embeddings`, matrices [query][document] of [tokens, dim], scores these matrices, as float16 or in
    the storage type of `collection`. Without it, scores the documents of `collection` that `documents_ids` name; an
    id that the collection does not hold is an error. `device` is ignored: it is only there because pylate.rank.rerank
    has it.

    Scores are MaxSim. PyLate pads all documents of a query to one length with zeros, and takes these into account: if
    a query token's best similarity with a shorter document is negative, the token adds 0 to the score in PyLate, and
    that similarity here."""
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
    """A collection that a maxsimd serves, as an index of PyLate. Every search computes the exact scores of all
    documents, of those in `subset`, or of those that match `filter`. The attribute `filter` may be set at any time.

    Without `live`, the collection is written as a whole: add_documents gathers documents on the disk. publish(), the
    first search or the end of a `with` block writes the collection and, with `load`, makes the server serve it; after
    that the index takes no more documents. With live=True, documents are added to and removed from the server's live
    collection, one call at a time, and the next search sees the changes."""

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
        of maxsim.Client. `filter`: which documents a search scores, by the collection's fields: made with maxsim.F, a
        text, or a dict. `live`: the collection is live (it accepts writes while it is served). If the server has no
        collection of the name, the first add_documents creates an empty one there, in `storage` ("f16" by default) and
        with the type of its documents' ids; the server must permit this. `fields`: the fields of a collection that
        add_documents makes, such as "lang:keyword,year:integer"; their values are read from payloads.

        The other arguments are for add_documents without `live`. `folder`: where the collection is written. `load`:
        whether the server is told to serve it; the server must permit this (store.allowed_roots). `server_folder`: the
        folder's path on the server's machine, if it differs. `storage`: that of CollectionWriter. `override`: permits
        writing the next generation (version) of a collection that is already in the folder."""
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
        """Closes the connection. A later call connects again."""
        self._scorer.close()

    def add_documents(  # type: ignore[override,unused-ignore]
        self,
        documents_ids: Id | Sequence[Id],
        documents_embeddings: Embeddings,
        batch_size: int | None = None,
        *,
        payloads: Sequence[Mapping[str, Any] | None] | None = None,
    ) -> MaxsimIndex:
        """Adds documents to the collection that publish() will write, or upserts them into the live one; see the
        class. `payloads`: a JSON object for each document, with the values of its fields. `batch_size` is ignored: it
        is only there because PyLate's method has it."""
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
        """Writes the collection of the added documents, and makes the server serve it. Does nothing if no documents
        were added. If the server refuses to serve it, call publish again to repeat only that request."""
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
        """Removes documents from a live collection. Ids that it does not hold are ignored."""
        if not self._live:
            raise NotImplementedError(
                "documents are removed only from a live collection: give live=True, or write the collection again "
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
        """Replaces documents of a live collection, with their payloads, or adds them if the collection lacks their ids.
        NotImplementedError: the index was made without `live`."""
        if not self._live:
            raise NotImplementedError(
                "documents are replaced only in a live collection: give live=True, or write the collection again with "
                "them, with override=True"
            )
        self.add_documents(documents_ids, documents_embeddings, payloads=payloads)

    def get_documents_embeddings(self, documents_ids: Sequence[Sequence[Id]]) -> list[list[Any]]:
        """Returns the vectors of each list's documents as the collection stores them, float32 [tokens, dim].
        retrieve.ColBERT does not call this for an index that ranks by itself. KeyError: the collection does not hold an
        id. NotImplementedError: the collection is stored as i8, so its vectors are quantised and rotated."""
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
        """Returns the best `k` documents of each query, among all documents or `subset`. `subset` is one list of ids,
        or a list for each query; ids that the collection does not hold are ignored. `filter`: only documents that
        match it are scored; None: the index's own filter."""
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
        """Returns the server's collection of this name, or None if it has none."""
        return {one.name: one for one in self._client.info().collections}.get(self._collection)

    def _served_path(self) -> str | None:
        served = self._served()
        return None if served is None else served.path

    def _make_live(self, dim: int, id: Id) -> None:
        """Creates the live collection if the server has none of this name."""
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
                f"the collection {self._collection!r} is published, but maxsimd cannot add to it: give all documents "
                "before the first search, or write it again with override=True"
            )
        if self._folder is None:
            raise ValueError("folder is missing: add_documents writes the collection there")
        if not self._override and (self._folder / "collection.json").exists():
            raise ValueError(f"{self._folder} holds a collection; override=True writes the next generation of it")
        served = self._served_path() if self._load else None
        if served not in (None, self._path_to_load()):
            raise ValueError(f"the server has the folder {served!r} as {self._collection!r}: choose another name")
        # Imported here, because searching does not need the packages that writing needs.
        from ..collection import CollectionWriter

        self._writer = CollectionWriter(
            self._folder, dim=dim, storage=self._storage, name=self._collection, fields=self._fields
        )
        return self._writer


def as_list(embeddings: Embeddings) -> list[Any]:
    """Returns the matrices of `embeddings`, each [tokens, dim]."""
    if getattr(embeddings, "ndim", None) == 2:
        return [embeddings]
    return list(embeddings)


def _subsets(subset: Any, num_queries: int) -> list[list[Id]]:
    """Returns the list of ids for each query."""
    subset = list(subset)
    if subset and not isinstance(subset[0], (str, int)) and hasattr(subset[0], "__len__"):
        _check_length("subset", subset, num_queries)
        return [[as_id(id, f"subset[{i}][{j}]") for j, id in enumerate(one)] for i, one in enumerate(subset)]
    ids = [as_id(id, f"subset[{i}]") for i, id in enumerate(subset)]
    return [ids] * num_queries


def _check_length(name: str, values: Sequence[Any], wanted: int) -> None:
    if len(values) != wanted:
        raise ValueError(f"{name} has length {len(values)}; must have length {wanted}")

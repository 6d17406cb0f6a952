"""sentence-transformers: ranks the documents of a MultiVectorEncoder with a maxsimd."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from sentence_transformers import MultiVectorEncoder
from typing_extensions import NotRequired

from ..filters import FilterLike
from ..requests import Id, MissingPolicy
from .scorer import Candidates, Scorer, as_id


class Hit(TypedDict):
    """A ranked document, in the form that CrossEncoder.rank and util.semantic_search return."""

    corpus_id: Id  # the position in the list of documents; for a document of a collection, its id
    score: float
    text: NotRequired[str]


class MaxsimReranker:
    """Ranks texts, or documents of a collection, by their MaxSim with a query."""

    def __init__(
        self,
        model: MultiVectorEncoder | None = None,
        target: str | None = None,
        *,
        collection: str = "",
        missing_policy: MissingPolicy = "fail",
        client_options: Mapping[str, Any] | None = None,
    ) -> None:
        """`model` encodes the queries, and the documents of rank(); if it is None, the server's encoder does. `target`:
        the server, as maxsim.Client takes it; `client_options`: further arguments of maxsim.Client. `collection`: the
        collection whose documents rank_ids() and search() score. rank() rounds the vectors of its texts to this
        collection's storage type ("": float16). `missing_policy`: if the collection does not hold an id, "fail" raises
        and "report" leaves the document out."""
        self._scorer = Scorer(
            target,
            collection=collection,
            encoder=model,
            missing_policy=missing_policy,
            client_options=client_options,
        )

    def __enter__(self) -> MaxsimReranker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection. A later call connects again."""
        self._scorer.close()

    def rank(
        self, query: str, documents: Sequence[str], top_k: int | None = None, return_documents: bool = False
    ) -> list[Hit]:
        """Ranks texts, with the signature of CrossEncoder.rank. Returns the best `top_k`, or all, best first."""
        if isinstance(documents, str):
            raise ValueError("documents is one string; must be a list of texts")
        hits: list[Hit] = []
        for position, score in self._scorer.rank(query, Candidates(texts=documents), top_k):
            hit = Hit(corpus_id=position, score=score)
            if return_documents:
                hit["text"] = documents[position]
            hits.append(hit)
        return hits

    def rank_ids(self, query: str, ids: Sequence[Id], top_k: int | None = None) -> list[Hit]:
        """Ranks documents of the collection, whose vectors the server holds: only the query is encoded."""
        self._want_collection()
        known = [as_id(id, f"ids[{i}]") for i, id in enumerate(ids)]
        scored = self._scorer.rank(query, Candidates(ids=known), top_k)
        return [Hit(corpus_id=known[position], score=score) for position, score in scored]

    def search(self, query: str, top_k: int = 10, filter: FilterLike | None = None) -> list[Hit]:
        """Returns the best documents of the whole collection, or of those that match `filter`."""
        self._want_collection()
        return [Hit(corpus_id=id, score=score) for id, score in self._scorer.search([query], top_k, filter=filter)[0]]

    def _want_collection(self) -> None:
        if not self._scorer.collection:
            raise ValueError("collection is missing: ids are those of a collection")

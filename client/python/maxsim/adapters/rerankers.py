"""rerankers: a ranker that scores with a maxsimd.

After `import maxsim.adapters.rerankers`, rerankers.Reranker("localhost:7070", model_type="MaxsimRanker") makes one."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from rerankers.documents import Document
from rerankers.models import AVAILABLE_RANKERS
from rerankers.models.ranker import BaseRanker
from rerankers.results import RankedResults, Result
from rerankers.utils import prep_docs

from ..requests import Id, MissingPolicy
from .scorer import Candidates, HasScorer, Scored, Scorer, as_id, check_ids, id_in

Documents: TypeAlias = str | list[str] | Document | list[Document]


class MaxsimRanker(BaseRanker, HasScorer):  # type: ignore[misc,unused-ignore]
    """Ranks documents by their MaxSim with the query. Scores the documents' texts or, with `id_key` or `own_ids`,
    their vectors in a collection."""

    def __init__(
        self,
        target: str | None = None,
        verbose: int = 1,
        *,
        collection: str = "",
        encoder: Any = None,
        id_key: str | None = None,
        own_ids: bool = False,
        missing_policy: MissingPolicy = "fail",
        token: str | None = None,
        client_options: Mapping[str, Any] | None = None,
    ) -> None:
        """`target`: the server, as maxsim.Client takes it; `client_options`: further arguments of maxsim.Client.
        `verbose` is ignored: it is only there because Reranker() passes it. `collection`: with `id_key` or `own_ids`,
        the collection that holds the documents' vectors; for texts, the collection to whose storage type their vectors
        are rounded ("": float16). `encoder`: a MultiVectorEncoder, a PyLate ColBERT or a TextEncoder; if it is None,
        the server encodes. `id_key`: the key of a document's metadata that holds its id in the collection; `own_ids`:
        doc_id is that id. `missing_policy`: if the collection does not hold an id, "fail" raises and "report" leaves
        the document out."""
        check_ids(collection, id_key, own_ids)
        self.verbose = verbose
        self._id_key = id_key
        self._own_ids = own_ids
        self._scorer = Scorer(
            target,
            collection=collection,
            encoder=encoder,
            missing_policy=missing_policy,
            client_options={**({"token": token} if token else {}), **(client_options or {})},
        )

    def rank(
        self,
        query: str,
        docs: Documents,
        doc_ids: list[str] | list[int] | None = None,
        metadata: list[dict[str, Any]] | None = None,
    ) -> RankedResults:
        """Returns all documents, best first, with their scores."""
        documents = _documents(docs, doc_ids, metadata)
        return _results(query, documents, self._scorer.rank(query, self._candidates(documents)))

    async def rank_async(
        self,
        query: str,
        docs: Documents,
        doc_ids: list[str] | list[int] | None = None,
        metadata: list[dict[str, Any]] | None = None,
    ) -> RankedResults:
        """Does what rank does, without blocking the event loop."""
        documents = _documents(docs, doc_ids, metadata)
        return _results(query, documents, await self._scorer.rank_async(query, self._candidates(documents)))

    def score(self, query: str, doc: str) -> float:
        """Returns the score of a document's text."""
        return self._scorer.rank(query, Candidates(texts=[doc]))[0].score

    def _candidates(self, documents: list[Document]) -> Candidates:
        if self._id_key is not None:
            return Candidates(ids=[id_in(one.metadata, self._id_key, i) for i, one in enumerate(documents)])
        if self._own_ids:
            ids: list[Id] = [as_id(one.doc_id, f"the doc_id of docs[{i}]") for i, one in enumerate(documents)]
            return Candidates(ids=ids)
        for i, one in enumerate(documents):
            if one.text is None:
                raise ValueError(f"docs[{i}] is of type {one.document_type!r} and has no text")
        return Candidates(texts=[one.text for one in documents])


def _documents(docs: Documents, doc_ids: Any, metadata: Any) -> list[Document]:
    documents: list[Document] = [] if docs == [] else prep_docs(docs, doc_ids, metadata)
    return documents


def _results(query: str, documents: list[Document], scored: list[Scored]) -> RankedResults:
    ranked = enumerate(scored, start=1)
    results = [Result(document=documents[one.position], score=one.score, rank=rank) for rank, one in ranked]
    return RankedResults(results=results, query=query, has_scores=True)


AVAILABLE_RANKERS.setdefault("MaxsimRanker", MaxsimRanker)

"""LangChain: a retriever over a collection of a maxsimd, and a document compressor that ranks with a maxsimd."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    Callbacks,
)
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field, PrivateAttr, SecretStr, field_serializer

from .. import ranking
from ..filters import Filter
from ..requests import MissingPolicy
from .scorer import Candidates, HasScorer, Scored, Scorer, as_id, check_filter, check_ids, id_in, text_and_metadata


class MaxsimRerank(BaseDocumentCompressor, HasScorer):  # type: ignore[misc,unused-ignore]
    """Ranks documents by their MaxSim with the query and keeps the best `top_n`. The score is in the metadata
    `relevance_score`. Scores the documents' texts or, with `id_key` or `own_ids`, their vectors in a collection."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    target: str | None = None
    """The server, as maxsim.Client takes it."""
    collection: str = ""
    """Whose documents the ids name; for texts, whose storage type they are scored in ("": float16)."""
    encoder: Any = Field(default=None, exclude=True, repr=False)
    """A MultiVectorEncoder, a PyLate ColBERT or a TextEncoder; None: the server's own encoder."""
    id_key: str | None = None
    """The key of the metadata that holds a document's id in the collection."""
    own_ids: bool = False
    """Says that Document.id is the id in the collection."""
    top_n: int | None = Field(default=3, ge=1)
    """Documents that are kept; None: all."""
    missing_policy: MissingPolicy = "fail"
    """What to do with ids that the collection lacks: "fail" raises, "report" leaves the documents out."""
    token: SecretStr | None = None
    """The server's bearer token."""
    client_options: dict[str, Any] = Field(default_factory=dict, exclude=True, repr=False)
    """Further arguments of maxsim.Client."""

    _scorer: Scorer = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        check_ids(self.collection, self.id_key, self.own_ids)
        self._scorer = Scorer(
            self.target,
            collection=self.collection,
            encoder=self.encoder,
            missing_policy=self.missing_policy,
            client_options=_with_token(self.client_options, self.token),
        )

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Returns copies of the best documents, best first."""
        return _ranked(documents, self._scorer.rank(query, self._candidates(documents), self.top_n))

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Does what compress_documents does, without blocking the event loop."""
        return _ranked(documents, await self._scorer.rank_async(query, self._candidates(documents), self.top_n))

    def _candidates(self, documents: Sequence[Document]) -> Candidates:
        if self.id_key is not None:
            return Candidates(ids=[id_in(one.metadata, self.id_key, i) for i, one in enumerate(documents)])
        if self.own_ids:
            return Candidates(ids=[as_id(one.id, f"the id of documents[{i}]") for i, one in enumerate(documents)])
        return Candidates(texts=[one.page_content for one in documents])


class MaxsimRetriever(BaseRetriever, HasScorer):  # type: ignore[misc,unused-ignore]
    """Finds the best documents of a whole collection by their MaxSim with the query. A document's text and metadata
    come from its payload. The score is in the metadata `relevance_score`.

    `k` and `filter` may also be given to a single call: `retriever.invoke(question, k=10, filter=F.lang == "en")`."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    target: str | None = None
    """The server, as maxsim.Client takes it."""
    collection: str = Field(min_length=1)
    """Whose documents are searched."""
    encoder: Any = Field(default=None, exclude=True, repr=False)
    """A MultiVectorEncoder, a PyLate ColBERT or a TextEncoder; None: the server's own encoder."""
    k: int = Field(default=4, ge=1)
    """Documents that are returned."""
    filter: Filter | str | dict[str, Any] | None = None
    """Which documents are searched, by the collection's fields: made with maxsim.F, a text, or a dict; None: all."""
    text_key: str | None = "text"
    """The member of payloads that is a document's text; the others are its metadata. None: documents have no text."""
    token: SecretStr | None = None
    """The server's bearer token."""
    client_options: dict[str, Any] = Field(default_factory=dict, exclude=True, repr=False)
    """Further arguments of maxsim.Client."""

    _scorer: Scorer = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        check_filter(self.filter)
        options = _with_token(self.client_options, self.token)
        self._scorer = Scorer(
            self.target, collection=self.collection, encoder=self.encoder, client_options=options
        )

    @field_serializer("filter")  # type: ignore[untyped-decorator,unused-ignore]
    def _dump_filter(self, filter: Filter | str | dict[str, Any] | None) -> str | dict[str, Any] | None:
        return filter.to_dict() if isinstance(filter, Filter) else filter

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: Filter | str | dict[str, Any] | None = None,
    ) -> list[Document]:
        return self._documents(self._scorer.find(query, *self._options(k, filter)))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: Filter | str | dict[str, Any] | None = None,
    ) -> list[Document]:
        return self._documents(await self._scorer.find_async(query, *self._options(k, filter)))

    def _options(self, k: int | None, filter: Any) -> tuple[int, Any]:
        """Returns `k` and `filter` of one call. For one that is None, returns the retriever's own value."""
        k = self.k if k is None else k
        if k < 1:
            raise ValueError(f"k is {k}; must be 1 or more")
        return k, self.filter if filter is None else filter

    def _documents(self, found: list[ranking.Document]) -> list[Document]:
        made = []
        for one in found:
            text, metadata = text_and_metadata(one, self.text_key)
            metadata["relevance_score"] = one.score
            made.append(Document(page_content=text, id=str(one.id), metadata=metadata))
        return made


def _with_token(client_options: dict[str, Any], token: SecretStr | None) -> dict[str, Any]:
    """Returns the arguments of maxsim.Client."""
    return client_options if token is None else {**client_options, "token": token.get_secret_value()}


def _ranked(documents: Sequence[Document], scored: list[Scored]) -> list[Document]:
    """Returns copies of the ranked documents, with their scores in the metadata. The originals stay unchanged, because
    LangChain's caches and retrievers may return the same Document object twice."""
    result = []
    for position, score in scored:
        metadata = {**documents[position].metadata, "relevance_score": score}
        result.append(documents[position].model_copy(update={"metadata": metadata}))
    return result

"""LangChain: a document compressor that ranks by a maxsimd."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict, Field, PrivateAttr, SecretStr

from ..requests import MissingPolicy
from .scorer import Candidates, Scored, Scorer, as_id, check_ids, id_in


class MaxsimRerank(BaseDocumentCompressor):  # type: ignore[misc,unused-ignore]
    """Ranks documents by their MaxSim with the query and keeps the best `top_n`, with the score in the metadata
    `relevance_score`. Takes the texts of the documents or, with `id_key` or `own_ids`, the vectors that a collection
    holds of them."""

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
        options = dict(self.client_options)
        if self.token is not None:
            options["token"] = self.token.get_secret_value()
        self._scorer = Scorer(
            self.target,
            collection=self.collection,
            encoder=self.encoder,
            missing_policy=self.missing_policy,
            client_options=options,
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

    def close(self) -> None:
        """Ends the connection; a later call connects again."""
        self._scorer.close()

    async def aclose(self) -> None:
        """Ends the connection of this event loop too."""
        await self._scorer.aclose()

    def _candidates(self, documents: Sequence[Document]) -> Candidates:
        if self.id_key is not None:
            return Candidates(ids=[id_in(one.metadata, self.id_key, i) for i, one in enumerate(documents)])
        if self.own_ids:
            return Candidates(ids=[as_id(one.id, f"the id of documents[{i}]") for i, one in enumerate(documents)])
        return Candidates(texts=[one.page_content for one in documents])


def _ranked(documents: Sequence[Document], scored: list[Scored]) -> list[Document]:
    """Copies, since LangChain's caches and retrievers may hand out the same Document twice."""
    result = []
    for position, score in scored:
        metadata = {**documents[position].metadata, "relevance_score": score}
        result.append(documents[position].model_copy(update={"metadata": metadata}))
    return result

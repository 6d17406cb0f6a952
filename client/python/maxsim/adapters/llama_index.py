"""LlamaIndex: a retriever over a collection of a maxsimd, and a node postprocessor that ranks with a maxsimd."""

# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

from llama_index.core.bridge.pydantic import Field, PrivateAttr, SecretStr
from llama_index.core.callbacks import CallbackManager
from llama_index.core.constants import DEFAULT_SIMILARITY_TOP_K
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined,unused-ignore]
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores import MetadataFilters

from ..filters import FilterLike
from ..ranking import Document
from ..requests import MissingPolicy
from .llama_index_filters import to_filter
from .scorer import Candidates, HasScorer, Scored, Scorer, as_id, check_filter, check_ids, id_in, text_and_metadata

__all__ = ["MaxsimRerank", "MaxsimRetriever", "to_filter"]

_dispatcher = get_dispatcher(__name__)


class MaxsimRerank(BaseNodePostprocessor, HasScorer):  # type: ignore[misc,unused-ignore]
    """Ranks nodes by their MaxSim with the query, keeps the best `top_n`, and sets their scores. Scores the nodes'
    texts or, with `id_key` or `own_ids`, their vectors in a collection."""

    target: str | None = Field(default=None, description="The server, as maxsim.Client takes it.")
    collection: str = Field(
        default="",
        description="Whose documents the ids name; for texts, whose storage type they are scored in (empty: float16).",
    )
    encoder: Any = Field(
        default=None,
        exclude=True,
        repr=False,
        description="A MultiVectorEncoder, a PyLate ColBERT or a TextEncoder; None: the server's own encoder.",
    )
    id_key: str | None = Field(default=None, description="The key of the metadata that holds a node's id.")
    own_ids: bool = Field(default=False, description="Whether the ids of the nodes are those of the collection.")
    top_n: int | None = Field(default=3, ge=1, description="Nodes that are kept; None: all.")
    missing_policy: MissingPolicy = Field(
        default="fail", description='Ids that the collection lacks: "fail" raises, "report" leaves the nodes out.'
    )
    metadata_mode: MetadataMode = Field(
        default=MetadataMode.EMBED, description="Which metadata stand before the text of a node."
    )
    token: SecretStr | None = Field(default=None, exclude=True, description="The server's bearer token.")
    client_options: dict[str, Any] = Field(
        default_factory=dict, exclude=True, repr=False, description="Further arguments of maxsim.Client."
    )

    _scorer: Scorer = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
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

    @classmethod
    def class_name(cls) -> str:
        return "MaxsimRerank"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query = self._begin(nodes, query_bundle)
        return self._end(nodes, self._scorer.rank(query, self._candidates(nodes), self.top_n))

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query = self._begin(nodes, query_bundle)
        return self._end(nodes, await self._scorer.rank_async(query, self._candidates(nodes), self.top_n))

    def _begin(self, nodes: list[NodeWithScore], query: QueryBundle | None) -> str:
        """Returns the question, and tells LlamaIndex's instrumentation that ranking begins."""
        if query is None:
            raise ValueError("query_str or query_bundle is missing: nodes are ranked for a question")
        name = self.collection or "maxsimd"
        top_n = len(nodes) if self.top_n is None else self.top_n
        _dispatcher.event(ReRankStartEvent(query=query, nodes=nodes, top_n=top_n, model_name=name))
        text: str = query.query_str
        return text

    def _end(self, nodes: list[NodeWithScore], scored: list[Scored]) -> list[NodeWithScore]:
        ranked = [NodeWithScore(node=nodes[position].node, score=score) for position, score in scored]
        _dispatcher.event(ReRankEndEvent(nodes=ranked))
        return ranked

    def _candidates(self, nodes: list[NodeWithScore]) -> Candidates:
        if self.id_key is not None:
            return Candidates(ids=[id_in(one.node.metadata, self.id_key, i) for i, one in enumerate(nodes)])
        if self.own_ids:
            return Candidates(ids=[as_id(one.node.node_id, f"the id of nodes[{i}]") for i, one in enumerate(nodes)])
        return Candidates(texts=[one.node.get_content(metadata_mode=self.metadata_mode) for one in nodes])


class MaxsimRetriever(BaseRetriever, HasScorer):  # type: ignore[misc,unused-ignore]
    """Finds the best nodes of a whole collection by their MaxSim with the query. A node's text and metadata come from
    the payload of its document, and its id is the document's."""

    def __init__(
        self,
        target: str | None = None,
        *,
        collection: str,
        similarity_top_k: int = DEFAULT_SIMILARITY_TOP_K,
        filters: MetadataFilters | FilterLike | None = None,
        text_key: str | None = "text",
        encoder: Any = None,
        token: str | None = None,
        client_options: dict[str, Any] | None = None,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        verbose: bool = False,
    ) -> None:
        """`target`: the server, as maxsim.Client takes it; `token` and `client_options`: further arguments of
        maxsim.Client. `collection`: the collection to search. `similarity_top_k`: the number of nodes to return.
        `filters`: which documents are searched, by the collection's fields: MetadataFilters, or a filter of maxsim
        (made with maxsim.F, a text, or a dict). `text_key`: the member of payloads that is a node's text; the other
        members are its metadata. If it is None, nodes have no text. `encoder`: a MultiVectorEncoder, a PyLate ColBERT
        or a TextEncoder; if it is None, the server encodes. LlamaIndex defines the other arguments."""
        if not collection:
            raise ValueError("collection is empty; must be the name of the collection that is searched")
        self.similarity_top_k = similarity_top_k
        self.filters = filters
        self._text_key = text_key
        options = {**(client_options or {}), **({} if token is None else {"token": token})}
        self._scorer = Scorer(target, collection=collection, encoder=encoder, client_options=options)
        super().__init__(callback_manager=callback_manager, object_map=object_map, verbose=verbose)

    @property
    def similarity_top_k(self) -> int:
        """The number of nodes to return. May be set."""
        return self._similarity_top_k

    @similarity_top_k.setter
    def similarity_top_k(self, value: int) -> None:
        if value < 1:
            raise ValueError(f"similarity_top_k is {value}; must be 1 or more")
        self._similarity_top_k = value

    @property
    def filters(self) -> MetadataFilters | FilterLike | None:
        """The filter that documents must match to be searched. May be set."""
        return self._filters

    @filters.setter
    def filters(self, value: MetadataFilters | FilterLike | None) -> None:
        translated = to_filter(value)
        check_filter(translated)
        self._filters, self._filter = value, translated

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._nodes(self._scorer.find(query_bundle.query_str, self._similarity_top_k, self._filter))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = await self._scorer.find_async(query_bundle.query_str, self._similarity_top_k, self._filter)
        return self._nodes(found)

    def _nodes(self, found: list[Document]) -> list[NodeWithScore]:
        nodes = []
        for one in found:
            text, metadata = text_and_metadata(one, self._text_key)
            nodes.append(NodeWithScore(node=TextNode(id_=str(one.id), text=text, metadata=metadata), score=one.score))
        return nodes

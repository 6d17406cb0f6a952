"""LlamaIndex: a node postprocessor that ranks by a maxsimd."""

# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

from llama_index.core.bridge.pydantic import Field, PrivateAttr, SecretStr
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined,unused-ignore]
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle

from ..requests import MissingPolicy
from .scorer import Candidates, Scored, Scorer, as_id, check_ids, id_in

_dispatcher = get_dispatcher(__name__)


class MaxsimRerank(BaseNodePostprocessor):  # type: ignore[misc,unused-ignore]
    """Ranks nodes by their MaxSim with the query and keeps the best `top_n`, with the score as the node's. Takes the
    texts of the nodes or, with `id_key` or `own_ids`, the vectors that a collection holds of them."""

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

    def close(self) -> None:
        """Ends the connection; a later call connects again."""
        self._scorer.close()

    async def aclose(self) -> None:
        """Ends the connection of this event loop too."""
        await self._scorer.aclose()

    def _begin(self, nodes: list[NodeWithScore], query: QueryBundle | None) -> str:
        """Returns the question; tells LlamaIndex's instrumentation that ranking begins."""
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

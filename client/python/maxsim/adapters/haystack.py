"""Haystack: a ranker component that asks a maxsimd."""

# pyright: reportMissingImports=false

# Haystack reads the types of run() as they stand here, so that they must not become strings.
import dataclasses
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.utils import Secret

from ..requests import Id, MissingPolicy
from .scorer import Candidates, Scored, Scorer, as_id, check_ids, id_in


@component
class MaxsimRanker:
    """Ranks documents by their MaxSim with the query, with the score as the document's. Takes the texts of the
    documents or, with `id_key` or `own_ids`, the vectors that a collection holds of them.

    A document that is given twice, as when several retrievers found it, is ranked once."""

    def __init__(
        self,
        target: str | None = None,
        *,
        collection: str = "",
        model: str | None = None,
        encoder: Any = None,
        id_key: str | None = None,
        own_ids: bool = False,
        top_k: int = 10,
        meta_fields_to_embed: list[str] | None = None,
        embedding_separator: str = "\n",
        missing_policy: MissingPolicy = "fail",
        token: Secret | None = None,
        client_options: dict[str, Any] | None = None,
    ) -> None:
        """`target`: the server, as maxsim.Client takes it; `client_options`: further arguments of it, which to_dict
        writes as they are. `collection`: whose documents ids name; for texts, whose storage type they are scored in
        ("": float16). `model`: a name or a folder that warm_up loads as a MultiVectorEncoder of sentence-transformers;
        `encoder`: a loaded one, a PyLate ColBERT or a TextEncoder, which to_dict cannot write; neither: the server's
        encoder. `id_key`: the key of Document.meta that holds a document's id in the collection; `own_ids`:
        Document.id is that id. `meta_fields_to_embed`: members of Document.meta that stand before the content, with
        `embedding_separator` between. `missing_policy`: "fail" raises where the collection lacks an id, "report" leaves
        the document out."""
        if top_k < 1:
            raise ValueError(f"top_k is {top_k}; at least one document is returned")
        if model is not None and encoder is not None:
            raise ValueError("model and encoder are two ways to say what encodes: give one")
        check_ids(collection, id_key, own_ids)
        self.target = target
        self.collection = collection
        self.model = model
        self.encoder = encoder
        self.id_key = id_key
        self.own_ids = own_ids
        self.top_k = top_k
        self.meta_fields_to_embed = meta_fields_to_embed or []
        self.embedding_separator = embedding_separator
        self.missing_policy: MissingPolicy = missing_policy
        self.token = token
        self.client_options = client_options
        self._scorer: Scorer | None = None

    def warm_up(self) -> None:
        """Loads the model and reads the token; the first run does so where it was not called."""
        if self._scorer is not None:
            return
        encoder = self.encoder
        if self.model is not None:
            from sentence_transformers import MultiVectorEncoder

            encoder = MultiVectorEncoder(self.model)
        options = dict(self.client_options or {})
        if self.token is not None and (token := self.token.resolve_value()):
            options["token"] = token
        self._scorer = Scorer(
            self.target,
            collection=self.collection,
            encoder=encoder,
            missing_policy=self.missing_policy,
            client_options=options,
        )

    def close(self) -> None:
        """Ends the connection; a later run connects again."""
        if self._scorer is not None:
            self._scorer.close()

    async def close_async(self) -> None:
        """Ends the connection of this event loop too."""
        if self._scorer is not None:
            await self._scorer.aclose()

    def to_dict(self) -> dict[str, Any]:
        """Returns the component as a dictionary. ValueError where it has an `encoder`."""
        if self.encoder is not None:
            raise ValueError(
                f"encoder is a {type(self.encoder).__name__}, which is an object of this process: a pipeline that is "
                "saved names its model by `model`, or leaves the texts to the server's encoder"
            )
        written: dict[str, Any] = default_to_dict(
            self,
            target=self.target,
            collection=self.collection,
            model=self.model,
            id_key=self.id_key,
            own_ids=self.own_ids,
            top_k=self.top_k,
            meta_fields_to_embed=self.meta_fields_to_embed,
            embedding_separator=self.embedding_separator,
            missing_policy=self.missing_policy,
            token=self.token.to_dict() if self.token is not None else None,
            client_options=self.client_options,
        )
        return written

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "MaxsimRanker":
        """Returns the component that to_dict wrote."""
        parameters = dict(data.get("init_parameters", {}))
        if isinstance(parameters.get("token"), dict):
            parameters["token"] = Secret.from_dict(parameters["token"])
        made: "MaxsimRanker" = default_from_dict(cls, {**data, "init_parameters": parameters})
        return made

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator,unused-ignore]
    def run(self, query: str, documents: list[Document], top_k: int | None = None) -> dict[str, list[Document]]:
        """Returns copies of the best `top_k` documents, best first."""
        documents = _without_repeats(documents)
        scored = self._warm_scorer().rank(query, self._candidates(documents), self._limit(top_k))
        return {"documents": _ranked(documents, scored)}

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator,unused-ignore]
    async def run_async(
        self, query: str, documents: list[Document], top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Does what run does, without blocking the event loop."""
        documents = _without_repeats(documents)
        scored = await self._warm_scorer().rank_async(query, self._candidates(documents), self._limit(top_k))
        return {"documents": _ranked(documents, scored)}

    def _warm_scorer(self) -> Scorer:
        self.warm_up()
        assert self._scorer is not None
        return self._scorer

    def _limit(self, top_k: int | None) -> int:
        limit = self.top_k if top_k is None else top_k
        if limit < 1:
            raise ValueError(f"top_k is {limit}; at least one document is returned")
        return limit

    def _candidates(self, documents: list[Document]) -> Candidates:
        if self.id_key is not None:
            return Candidates(ids=[id_in(one.meta, self.id_key, i) for i, one in enumerate(documents)])
        if self.own_ids:
            ids: list[Id] = [as_id(one.id, f"the id of documents[{i}]") for i, one in enumerate(documents)]
            return Candidates(ids=ids)
        return Candidates(texts=[self._text(one, i) for i, one in enumerate(documents)])

    def _text(self, document: Document, position: int) -> str:
        if document.content is None:
            raise ValueError(f"documents[{position}] has no content")
        fields = [str(document.meta[key]) for key in self.meta_fields_to_embed if document.meta.get(key) is not None]
        return self.embedding_separator.join([*fields, document.content])


def _without_repeats(documents: list[Document]) -> list[Document]:
    return list({one.id: one for one in reversed(documents)}.values())[::-1]


def _ranked(documents: list[Document], scored: list[Scored]) -> list[Document]:
    return [dataclasses.replace(documents[position], score=score) for position, score in scored]

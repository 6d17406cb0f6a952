"""Haystack: a retriever over a collection of a maxsimd, and a ranker that scores with a maxsimd."""

# pyright: reportMissingImports=false

# Haystack reads the annotations of run() as objects, so this module must not import `annotations` from __future__.
import dataclasses
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.types import FilterPolicy, apply_filter_policy
from haystack.errors import FilterError
from haystack.utils import Secret

from .. import ranking
from ..filters import Filter
from ..requests import Id, MissingPolicy
from .haystack_filters import to_filter
from .scorer import Candidates, Scored, Scorer, as_id, check_ids, id_in, text_and_metadata

__all__ = ["MaxsimRanker", "MaxsimRetriever", "to_filter"]


class _Connected:
    """The connection to the server and the model of a component."""

    def __init__(
        self,
        target: str | None,
        collection: str,
        model: str | None,
        encoder: Any,
        token: Secret | None,
        client_options: dict[str, Any] | None,
        missing_policy: MissingPolicy = "fail",
    ) -> None:
        if model is not None and encoder is not None:
            raise ValueError("model and encoder both say what encodes: give only one of them")
        self.target = target
        self.collection = collection
        self.model = model
        self.encoder = encoder
        self.missing_policy: MissingPolicy = missing_policy
        self.token = token
        self.client_options = client_options
        self._scorer: Scorer | None = None

    def warm_up(self) -> None:
        """Loads the model and reads the token. The first run calls this if the user did not."""
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
        """Closes the connection. A later run connects again."""
        if self._scorer is not None:
            self._scorer.close()

    async def close_async(self) -> None:
        """Also closes the connection of this event loop."""
        if self._scorer is not None:
            await self._scorer.aclose()

    def _warm_scorer(self) -> Scorer:
        self.warm_up()
        assert self._scorer is not None
        return self._scorer

    def _written(self) -> dict[str, Any]:
        """Returns the part of to_dict that describes the server and the model. Raises ValueError if there is an
        `encoder`."""
        if self.encoder is not None:
            raise ValueError(
                f"encoder is a {type(self.encoder).__name__}, which is an object of this process: a pipeline that is "
                "saved names its model by `model`, or leaves the texts to the server's encoder"
            )
        return {
            "target": self.target,
            "collection": self.collection,
            "model": self.model,
            "token": self.token.to_dict() if self.token is not None else None,
            "client_options": self.client_options,
        }


@component
class MaxsimRanker(_Connected):
    """Ranks documents by their MaxSim with the query, and sets their scores. Scores the documents' texts or, with
    `id_key` or `own_ids`, their vectors in a collection.

    A document that occurs twice, for example because several retrievers found it, is ranked once."""

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
        """`target`: the server, as maxsim.Client takes it; `client_options`: further arguments of maxsim.Client, which
        to_dict writes unchanged. `collection`: with `id_key` or `own_ids`, the collection that holds the documents'
        vectors; for texts, the collection to whose storage type their vectors are rounded ("": float16). `model`: a
        name or a folder that warm_up loads as a MultiVectorEncoder of sentence-transformers; `encoder`: a loaded
        MultiVectorEncoder, a PyLate ColBERT or a TextEncoder, which to_dict cannot write. Without both, the server
        encodes. `id_key`: the key of Document.meta that holds a document's id in the collection; `own_ids`: Document.id
        is that id. `meta_fields_to_embed`: members of Document.meta that are encoded before the content, with
        `embedding_separator` between them. `missing_policy`: if the collection does not hold an id, "fail" raises and
        "report" leaves the document out."""
        top_k = _limit(top_k)
        check_ids(collection, id_key, own_ids)
        # Calls the base class by its name: @component replaces this class, so super() would fail.
        _Connected.__init__(self, target, collection, model, encoder, token, client_options, missing_policy)
        self.id_key = id_key
        self.own_ids = own_ids
        self.top_k = top_k
        self.meta_fields_to_embed = meta_fields_to_embed or []
        self.embedding_separator = embedding_separator

    def to_dict(self) -> dict[str, Any]:
        """Returns the component as a dictionary. ValueError if it has an `encoder`."""
        written: dict[str, Any] = default_to_dict(
            self,
            **self._written(),
            id_key=self.id_key,
            own_ids=self.own_ids,
            top_k=self.top_k,
            meta_fields_to_embed=self.meta_fields_to_embed,
            embedding_separator=self.embedding_separator,
            missing_policy=self.missing_policy,
        )
        return written

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "MaxsimRanker":
        """Returns the component that to_dict wrote."""
        made: "MaxsimRanker" = default_from_dict(cls, _with_secret(data))
        return made

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator,unused-ignore]
    def run(self, query: str, documents: list[Document], top_k: int | None = None) -> dict[str, list[Document]]:
        """Returns copies of the best `top_k` documents, best first."""
        documents = _without_repeats(documents)
        scored = self._warm_scorer().rank(query, self._candidates(documents), _limit(self.top_k, top_k))
        return {"documents": _ranked(documents, scored)}

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator,unused-ignore]
    async def run_async(
        self, query: str, documents: list[Document], top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Does what run does, without blocking the event loop."""
        documents = _without_repeats(documents)
        scorer = self._warm_scorer()
        scored = await scorer.rank_async(query, self._candidates(documents), _limit(self.top_k, top_k))
        return {"documents": _ranked(documents, scored)}

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


@component
class MaxsimRetriever(_Connected):
    """Finds the best documents of a whole collection by their MaxSim with the query. A document's content and meta
    come from its payload."""

    def __init__(
        self,
        target: str | None = None,
        *,
        collection: str,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        filter_policy: str | FilterPolicy = FilterPolicy.REPLACE,
        text_key: str | None = "text",
        model: str | None = None,
        encoder: Any = None,
        token: Secret | None = None,
        client_options: dict[str, Any] | None = None,
    ) -> None:
        """`target`: the server, as maxsim.Client takes it; `client_options`: further arguments of maxsim.Client,
        which to_dict writes unchanged. `collection`: the collection to search. `filters`: which documents are
        searched, as Haystack's dictionaries over the collection's fields; `filter_policy`: whether the filters of a
        run replace these or are merged with them. `text_key`: the member of payloads that is a document's content;
        the other members are its meta. If it is None, documents have no content. `model`: a name or a folder that
        warm_up loads as a MultiVectorEncoder of sentence-transformers; `encoder`: a loaded MultiVectorEncoder, a
        PyLate ColBERT or a TextEncoder, which to_dict cannot write. Without both, the server encodes."""
        if not collection:
            raise ValueError("collection is empty; must be the name of the collection that is searched")
        _translated(filters)  # So that a wrong filter fails here, before the first run.
        _Connected.__init__(self, target, collection, model, encoder, token, client_options)  # Not super(), as above.
        self.filters = filters
        self.top_k = _limit(top_k)
        self.filter_policy = FilterPolicy.from_str(filter_policy) if isinstance(filter_policy, str) else filter_policy
        self.text_key = text_key

    def to_dict(self) -> dict[str, Any]:
        """Returns the component as a dictionary. ValueError if it has an `encoder`."""
        written: dict[str, Any] = default_to_dict(
            self,
            **self._written(),
            filters=self.filters,
            top_k=self.top_k,
            filter_policy=self.filter_policy.value,
            text_key=self.text_key,
        )
        return written

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "MaxsimRetriever":
        """Returns the component that to_dict wrote."""
        made: "MaxsimRetriever" = default_from_dict(cls, _with_secret(data))
        return made

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator,unused-ignore]
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Returns the best `top_k` documents that match the filters, best first. A wrong filter raises FilterError,
        which names the wrong part."""
        filter, limit = self._filter(filters), _limit(self.top_k, top_k)
        return {"documents": self._documents(self._warm_scorer().find(query, limit, filter))}

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator,unused-ignore]
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Does what run does, without blocking the event loop."""
        filter, limit = self._filter(filters), _limit(self.top_k, top_k)
        return {"documents": self._documents(await self._warm_scorer().find_async(query, limit, filter))}

    def _filter(self, filters: dict[str, Any] | None) -> Filter | None:
        return _translated(apply_filter_policy(self.filter_policy, self.filters, filters))

    def _documents(self, found: list[ranking.Document]) -> list[Document]:
        made = []
        for one in found:
            text, meta = text_and_metadata(one, self.text_key)
            content = None if self.text_key is None else text
            made.append(Document(id=str(one.id), content=content, meta=meta, score=one.score))
        return made


def _translated(filters: dict[str, Any] | None) -> Filter | None:
    try:
        return to_filter(filters)
    except ValueError as error:
        raise FilterError(str(error)) from error


def _limit(default: int, given: int | None = None) -> int:
    limit = default if given is None else given
    if limit < 1:
        raise ValueError(f"top_k is {limit}; must be 1 or more")
    return limit


def _with_secret(data: dict[str, Any]) -> dict[str, Any]:
    """Returns the dictionary of to_dict with the token as a Secret."""
    parameters = dict(data.get("init_parameters", {}))
    if isinstance(parameters.get("token"), dict):
        parameters["token"] = Secret.from_dict(parameters["token"])
    return {**data, "init_parameters": parameters}


def _without_repeats(documents: list[Document]) -> list[Document]:
    return list({one.id: one for one in reversed(documents)}.values())[::-1]


def _ranked(documents: list[Document], scored: list[Scored]) -> list[Document]:
    return [dataclasses.replace(documents[position], score=score) for position, score in scored]

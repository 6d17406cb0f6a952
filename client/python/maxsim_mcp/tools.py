"""The three tools: search, explain and list. Each returns its result as text and as structured content."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import maxsim
from maxsim import errors
from maxsim.v1 import rerank_pb2 as pb

from . import arguments, limits, schemas
from .failures import from_server
from .payloads import cut, excerpt
from .pieces import context


class Answer(NamedTuple):
    text: str
    structured: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the tools need to know about the collections.

    `collection` is used if a call names none; if it is None, calls must name one. `title_key` and
    `text_key` are the payload's members that hold a document's title and text. If `payload_fields` has names, only
    these members of payloads are read from the server."""

    collection: str | None = None
    title_key: str = "title"
    text_key: str = "text"
    payload_fields: Sequence[str] = ()


class Tools:
    """The tools, which call the server through `client`. The caller owns the client, and must keep it open. Use this
    object only in the client's event loop."""

    def __init__(self, client: maxsim.AsyncClient, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self._schemas = {
            "search": schemas.search_arguments(settings.collection),
            "explain": schemas.explain_arguments(settings.collection),
            "list": schemas.list_arguments(),
        }

    def arguments_of(self, tool: str) -> dict[str, Any] | None:
        """Returns the schema of a tool's arguments, or None if there is no such tool."""
        return self._schemas.get(tool)

    async def call(self, tool: str, given: Mapping[str, Any]) -> Answer:
        """Calls a tool. ToolError: an argument is wrong, or the server refuses the call or is not reached. KeyError:
        there is no such tool."""
        schema = self._schemas[tool]
        # Models often send null for an argument that they mean to leave out.
        given = {name: value for name, value in given.items() if value is not None}
        arguments.check_names(given, schema)
        run = {"search": self._search, "explain": self._explain, "list": self._list}[tool]
        try:
            return await run(given, schema)
        except maxsim.MaxsimError as error:
            raise from_server(error) from error

    async def _search(self, given: Mapping[str, Any], schema: Mapping[str, Any]) -> Answer:
        query = arguments.needed_text(given, "query", schema)
        collection = arguments.needed_text(given, "collection", schema)
        top_k = arguments.integer(given, "top_k", schema)
        filter = arguments.text(given, "filter", schema)
        max_text_chars = arguments.integer(given, "max_text_chars", schema)
        fields = self._settings.payload_fields
        ranking = await self._client.rerank(
            collection, query, top_k=top_k, filter=filter, payloads=not fields, payload_fields=fields
        )
        results = [
            {
                "rank": rank,
                "id": _exact(document.id),
                "score": document.score,
                **excerpt(document.payload, self._settings.title_key, self._settings.text_key, max_text_chars),
            }
            for rank, document in enumerate(ranking, 1)
        ]
        structured: dict[str, Any] = {"collection": collection, "results": results}
        if ranking.query_truncated:
            structured["query_truncated"] = True
        if ranking.unavailable:
            structured["unavailable_documents"] = ranking.unavailable
        return Answer(_search_text(structured), structured)

    async def _explain(self, given: Mapping[str, Any], schema: Mapping[str, Any]) -> Answer:
        query = arguments.needed_text(given, "query", schema)
        collection = arguments.needed_text(given, "collection", schema)
        document_id = arguments.document_id(given, "id", schema)
        explanation = await self._explanation_of(collection, query, document_id)
        num_query_tokens, num_document_tokens = explanation.similarities.shape
        structured = {
            "collection": collection,
            "id": _exact(document_id),
            "score": explanation.score,
            "num_query_tokens": num_query_tokens,
            "num_document_tokens": num_document_tokens,
            "matches": _matches(explanation),
        }
        if num_query_tokens > limits.MAX_MATCHES:
            structured["matches_left_out"] = num_query_tokens - limits.MAX_MATCHES
        if explanation.query_truncated:
            structured["query_truncated"] = True
        return Answer(_explain_text(structured), structured)

    async def _explanation_of(self, collection: str, query: str, document_id: str | int) -> maxsim.Explanation:
        """Takes an integer id also as a string of its digits, as `_exact` returns it."""
        try:
            return await self._client.explain(collection, query, document_id)
        except errors.InvalidArgument as error:
            number = arguments.digits_value(document_id)
            if number is None or from_server(error).details.get("field") != "id":
                raise
        return await self._client.explain(collection, query, number)

    async def _list(self, given: Mapping[str, Any], schema: Mapping[str, Any]) -> Answer:
        info = await self._client.info()
        structured: dict[str, Any] = {
            "server_version": info.version,
            "takes_text": info.HasField("encoder"),
            "collections": [_collection(one) for one in info.collections[: limits.MAX_COLLECTIONS]],
        }
        if info.HasField("encoder"):
            structured["encoder"] = cut(info.encoder.model, limits.MAX_VALUE_CHARS)
        if len(info.collections) > limits.MAX_COLLECTIONS:
            structured["collections_left_out"] = len(info.collections) - limits.MAX_COLLECTIONS
        return Answer(_list_text(structured), structured)


def _exact(document_id: str | int | None) -> str | int | None:
    """Returns an id as JSON can have it: many programs round integers from 2^53 on, so these become strings."""
    if isinstance(document_id, int) and abs(document_id) >= 2**53:
        return str(document_id)
    return document_id


def _matches(explanation: maxsim.Explanation) -> list[dict[str, Any]]:
    matches: list[dict[str, Any]] = []
    best = explanation.matches[: limits.MAX_MATCHES].tolist()
    for query_position, document_position in enumerate(best):
        match: dict[str, Any] = {
            "query_position": query_position,
            "similarity": float(explanation.similarities[query_position, document_position]),
            "document_position": document_position,
        }
        if explanation.query_tokens:
            match["query_token"] = cut(explanation.query_tokens[query_position], limits.MAX_VALUE_CHARS)
        if explanation.document_tokens:
            match["document_token"] = cut(explanation.document_tokens[document_position], limits.MAX_VALUE_CHARS)
            match["context"] = context(explanation.document_tokens, document_position)
        matches.append(match)
    return matches


def _collection(info: pb.CollectionInfo) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": info.name,
        "state": _name(pb.CollectionState, info.state, "COLLECTION_STATE_"),
        "num_documents": info.num_documents,
        "num_vectors": info.num_tokens,
        "dim": info.dim,
        "vector_bytes": info.token_bytes,
        "live": info.HasField("live"),
        "fields": [
            {"name": field.name, "kind": _name(pb.FieldKind, field.kind, "FIELD_KIND_")}
            for field in info.fields[: limits.MAX_DECLARED_FIELDS]
        ],
    }
    if info.error:
        described["error"] = cut(info.error, limits.MAX_VALUE_CHARS)
    if len(info.fields) > limits.MAX_DECLARED_FIELDS:
        described["fields_left_out"] = len(info.fields) - limits.MAX_DECLARED_FIELDS
    return described


def _name(values: Any, value: int, prefix: str) -> str:
    """Returns the name of a value of a protobuf enum, or its number if a newer server has more values."""
    name: str = values.Name(value) if value in values.values() else str(value)
    return name.removeprefix(prefix).lower()


def _search_text(found: Mapping[str, Any]) -> str:
    results = found["results"]
    if not results:
        return f"No document of {found['collection']} matches."
    lines = [f"Documents of {found['collection']}, best first:"]
    for result in results:
        title = f"{result['title']} " if "title" in result else ""
        lines.append(f"\n{result['rank']}. {title}(id {result['id']}, score {result['score']:.4f})")
        if "text" in result:
            lines.append(result["text"])
        lines += [f"{name}: {_shown(value)}" for name, value in result.get("fields", {}).items()]
    if "unavailable_documents" in found:
        lines.append(f"\n{found['unavailable_documents']} documents could not be scored: a part of the server is lost.")
    return "\n".join([*lines, *_cut_query(found)])


def _explain_text(found: Mapping[str, Any]) -> str:
    lines = [
        f"Document {found['id']} of {found['collection']} has the score {found['score']:.4f}, the sum of these "
        "similarities. Each line: query token, similarity, and the document token that it matched best."
    ]
    for match in found["matches"]:
        query_token = match.get("query_token", f"query token {match['query_position']}")
        document_token = match.get("document_token", f"document token {match['document_position']}")
        around = f'  in "{match["context"]}"' if "context" in match else ""
        lines.append(f"{query_token}  {match['similarity']:.4f}  {document_token}{around}")
    if "matches_left_out" in found:
        lines.append(f"{found['matches_left_out']} more query tokens are not shown.")
    return "\n".join([*lines, *_cut_query(found)])


def _list_text(found: Mapping[str, Any]) -> str:
    lines = [f"Collections of this maxsimd (version {found['server_version']}):"]
    for one in found["collections"]:
        fields = ", ".join(f"{field['name']} ({field['kind']})" for field in one["fields"])
        lines.append(
            f"- {one['name']}: {one['num_documents']} documents, {one['num_vectors']} vectors of {one['dim']} values, "
            f"{one['vector_bytes']} bytes, {one['state']}{', live' if one['live'] else ''}"
            + (f"; fields for filters: {fields}" if fields else "")
            + (f"; {one['error']}" if "error" in one else "")
        )
    if "collections_left_out" in found:
        lines.append(f"{found['collections_left_out']} more collections are not shown.")
    if not found["takes_text"]:
        lines.append("The server has no encoder (encoder.url), so it cannot search for texts.")
    return "\n".join(lines)


def _cut_query(found: Mapping[str, Any]) -> list[str]:
    return ["\nThe query was too long for the model, which read only its beginning."] if "query_truncated" in found else []


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)

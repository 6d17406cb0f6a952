"""The tools' JSON Schemas, of their arguments and of their structured results."""

from __future__ import annotations

from typing import Any

from . import limits

Schema = dict[str, Any]


def _object(properties: Schema, required: list[str], **others: Any) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False, **others}


def _text(most: int, description: str, least: int = 1) -> Schema:
    return {"type": "string", "minLength": least, "maxLength": most, "description": description}


def _integer(least: int, most: int, default: int, description: str) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most, "default": default, "description": description}


def _list(items: Schema, description: str, most: int) -> Schema:
    return {"type": "array", "items": items, "maxItems": most, "description": description}


def _collection(default: str | None) -> Schema:
    described = "Name of the collection; the tool `list` returns the names."
    if default is not None:
        return {**_text(limits.MAX_NAME_CHARS, described), "default": default}
    return _text(limits.MAX_NAME_CHARS, described)


def search_arguments(default_collection: str | None) -> Schema:
    properties = {
        "query": _text(limits.MAX_QUERY_CHARS, "The question, as text."),
        "collection": _collection(default_collection),
        "top_k": _integer(1, limits.MAX_TOP_K, limits.DEFAULT_TOP_K, "Number of documents to return."),
        "filter": _text(
            limits.MAX_FILTER_CHARS,
            "Searches only documents that match, by fields that `list` returns. Example: "
            'lang = "en" and year >= 2020 and not tags in ("draft", "old")',
        ),
        "max_text_chars": _integer(
            0,
            limits.MAX_TEXT_CHARS,
            limits.DEFAULT_TEXT_CHARS,
            "Longer texts of documents are cut after this many characters; 0 returns no texts.",
        ),
    }
    return _object(properties, ["query"] if default_collection is not None else ["query", "collection"])


def explain_arguments(default_collection: str | None) -> Schema:
    properties = {
        "query": _text(limits.MAX_QUERY_CHARS, "The question, as it was searched for."),
        "collection": _collection(default_collection),
        "id": {
            "type": ["string", "integer"],
            "maxLength": limits.MAX_ID_CHARS,
            "description": "Id of the document, as `search` returned it. An integer may be a string of its digits.",
        },
    }
    return _object(properties, ["query", "id"] if default_collection is not None else ["query", "collection", "id"])


def list_arguments() -> Schema:
    return _object({}, [])


_ID: Schema = {"type": ["string", "integer"]}
_DOCUMENT = _object(
    {
        "rank": {"type": "integer", "description": "1 is the best."},
        "id": _ID,
        "score": {"type": "number", "description": "MaxSim: comparable within one query only."},
        "title": {"type": "string"},
        "text": {"type": "string"},
        "text_cut": {"type": "boolean", "description": "The text goes on."},
        "fields": {"type": "object", "description": "Other members of the document's payload; long values are cut."},
        "fields_left_out": {"type": "integer", "description": "Number of members that are not in `fields`."},
    },
    ["rank", "id", "score"],
)
SEARCH_RESULT = _object(
    {
        "collection": {"type": "string"},
        "results": _list(_DOCUMENT, "The best documents, best first.", limits.MAX_TOP_K),
        "query_truncated": {"type": "boolean", "description": "The encoder cut the end of the query."},
        "unavailable_documents": {
            "type": "integer",
            "description": "Documents that could not be scored, because a part of the server is lost.",
        },
    },
    ["collection", "results"],
)

_MATCH = _object(
    {
        "query_position": {"type": "integer"},
        "query_token": {"type": "string", "description": "Missing if the encoder does not report tokens."},
        "similarity": {"type": "number", "description": "What this query token adds to the score."},
        "document_position": {"type": "integer"},
        "document_token": {"type": "string", "description": "Missing if the collection has no texts of tokens."},
        "context": {"type": "string", "description": "The document token with its neighbours."},
    },
    ["query_position", "similarity", "document_position"],
)
EXPLAIN_RESULT = _object(
    {
        "collection": {"type": "string"},
        "id": _ID,
        "score": {"type": "number", "description": "The sum of the similarities of all query tokens."},
        "num_query_tokens": {"type": "integer"},
        "num_document_tokens": {"type": "integer"},
        "matches": _list(_MATCH, "The best document token of each query token.", limits.MAX_MATCHES),
        "matches_left_out": {"type": "integer", "description": "Number of later query tokens, not in `matches`."},
        "query_truncated": {"type": "boolean", "description": "The encoder cut the end of the query."},
    },
    ["collection", "id", "score", "num_query_tokens", "num_document_tokens", "matches"],
)

_FIELD = _object({"name": {"type": "string"}, "kind": {"type": "string"}}, ["name", "kind"])
_COLLECTION = _object(
    {
        "name": {"type": "string"},
        "state": {"type": "string", "description": "ready, or why not."},
        "error": {"type": "string"},
        "num_documents": {"type": "integer"},
        "num_vectors": {"type": "integer"},
        "dim": {"type": "integer", "description": "Values of one vector."},
        "vector_bytes": {"type": "integer", "description": "Size of all vectors."},
        "live": {"type": "boolean", "description": "Documents can be added and removed one by one."},
        "fields": _list(_FIELD, "What filters can use.", limits.MAX_DECLARED_FIELDS),
        "fields_left_out": {"type": "integer"},
    },
    ["name", "state", "num_documents", "num_vectors", "dim", "vector_bytes", "live", "fields"],
)
LIST_RESULT = _object(
    {
        "server_version": {"type": "string"},
        "takes_text": {"type": "boolean", "description": "Whether the server has an encoder, which queries need."},
        "encoder": {"type": "string", "description": "Name of the encoder's model."},
        "collections": _list(_COLLECTION, "The collections of the server.", limits.MAX_COLLECTIONS),
        "collections_left_out": {"type": "integer"},
    },
    ["server_version", "takes_text", "collections"],
)

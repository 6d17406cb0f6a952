"""Parses the requests of each dialect, and formats the answers. A dialect is the API of one route (path), such as
OpenAI's /v1/embeddings. Nothing here depends on HTTP's framing or on the model."""

from __future__ import annotations

import base64
import dataclasses
import json
import struct
import time
import uuid
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import numpy as np

from maxsim_encoder.batcher import usage_of
from maxsim_encoder.encoder import DOCUMENT, KINDS, QUERY, Encoded, EncoderInfo
from maxsim_encoder.errors import RequestError, shown

OCTETS = "application/octet-stream"
JSON = "application/json"
DTYPES = {"float32": ("F32", "<f4"), "float16": ("F16", "<f2")}
MIN_MAX_TOKENS = 3


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds of one request."""

    max_request_texts: int = 1024
    max_text_bytes: int = 1 << 20  # UTF-8
    dtype: str = "float32"  # of the binary answer


@dataclasses.dataclass
class EncodeRequest:
    """The fields of a request that all dialects share."""

    texts: List[str]
    kind: str = DOCUMENT
    max_tokens: Optional[int] = None
    truncate: bool = True  # False: a text that is too long is an error
    base64: bool = False  # of JSON answers: vectors as base64 of float32, row after row
    pieces: bool = False  # in the binary answer: whether word pieces are sent as well


def _bad(message: str, status: int = 400, code: str = "invalid_request") -> RequestError:
    return RequestError(status, code, message)


def _unique_members(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    """An object_pairs_hook that refuses a repeated member. Python's parser would silently keep the last one."""
    members: Dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise _bad(f"{shown(name)} appears twice", code="invalid_json")
        members[name] = value
    return members


class _Members:
    """A JSON object whose members are read one by one. Members that were not read are refused."""

    def __init__(self, body: bytes) -> None:
        try:
            value = json.loads(body.decode("utf-8"), object_pairs_hook=_unique_members)
        except UnicodeDecodeError as error:
            raise _bad(f"the body is not UTF-8: {error.reason} at byte {error.start}", code="invalid_json") from None
        except (json.JSONDecodeError, RecursionError) as error:
            where = f"{error.msg} at byte {error.pos}" if isinstance(error, json.JSONDecodeError) else "nested too deep"
            raise _bad(f"the body is not JSON: {where}", code="invalid_json") from None
        except ValueError as error:  # a number of more digits than Python converts
            raise _bad(f"the body is not JSON: {error}", code="invalid_json") from None
        if not isinstance(value, dict):
            raise _bad(f"the body must be a JSON object, is {shown(value)}")
        self._left: Dict[str, Any] = value

    def take(self, name: str) -> Any:
        """Returns the member's value, or None if it is absent or null."""
        return self._left.pop(name, None)

    def string(self, name: str, allowed: Tuple[str, ...] = ()) -> Optional[str]:
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise _bad(f"{name} must be a string, is {shown(value)}")
        if allowed and value not in allowed:
            raise _bad(f"{name} must be {' or '.join(allowed)}, is {shown(value)}", 422)
        return value

    def boolean(self, name: str) -> Optional[bool]:
        value = self.take(name)
        if value is not None and not isinstance(value, bool):
            raise _bad(f"{name} must be true or false, is {shown(value)}")
        return value

    def count(self, name: str) -> Optional[int]:
        value = self.take(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise _bad(f"{name} must be an integer, is {shown(value)}")
        if not MIN_MAX_TOKENS <= value <= 1 << 20:
            raise _bad(f"{name} must be {MIN_MAX_TOKENS} to {1 << 20}, is {shown(value)}", 422)
        return value

    def ignore(self, *names: str) -> None:
        """Accepts members that clients of this dialect send and that have no effect here."""
        for name in names:
            self.take(name)

    def finish(self) -> None:
        if self._left:
            raise _bad(f"unknown member {shown(next(iter(self._left)))}")

    def texts(self, name: str, limits: Limits, allow_single: bool) -> List[str]:
        value = self.take(name)
        if value is None:
            raise _bad(f"{name} is missing")
        if allow_single and isinstance(value, str):
            value = [value]
        if not isinstance(value, list):
            raise _bad(f"{name} must be {'a string or ' if allow_single else ''}a list of strings, is {shown(value)}")
        if not value:
            raise _bad(f"{name} must not be empty", 422)
        if len(value) > limits.max_request_texts:
            message = f"{name} has {len(value)} texts, more than the limit {limits.max_request_texts}"
            raise _bad(message, 413, "too_many_texts")
        for i, text in enumerate(value):
            if not isinstance(text, str):
                raise _bad(f"{name}[{i}] must be a string, is {shown(text)}")
            if not text.strip():
                raise _bad(f"{name}[{i}] must not be empty, is {shown(text)}", 422)
            try:
                num_bytes = len(text.encode("utf-8"))
            except UnicodeEncodeError:
                raise _bad(f"{name}[{i}] holds half a surrogate pair, which is not a character", 422) from None
            if num_bytes > limits.max_text_bytes:
                message = f"{name}[{i}] has {num_bytes} bytes, more than the limit {limits.max_text_bytes}"
                raise _bad(message, 413, "text_too_long")
        return value


def _kind_of(given: Dict[str, Optional[str]], query: Mapping[str, str]) -> str:
    """Returns the kind of the texts that a member of the body or the address (?kind=) names, or DOCUMENT if neither
    does. Accepts words that other services use for the two kinds, such as "search_query" and "retrieval.passage"."""
    named = {**given, "?kind": query.get("kind")}
    kinds = {}
    for name, value in named.items():
        if value is None or value == "":
            continue
        word = value.lower()
        if any(part in word for part in ("query", "queries")):
            kinds[name] = QUERY
        elif any(part in word for part in ("document", "passage", "corpus")):
            kinds[name] = DOCUMENT
        else:
            raise _bad(f"{name} must be query or document, is {shown(value)}", 422)
    if len(set(kinds.values())) > 1:
        said = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
        raise _bad(f"the kind is given twice, with different values: {said}", 422)
    return next(iter(kinds.values()), DOCUMENT)


def _check_model(members: _Members, info: EncoderInfo) -> None:
    model = members.string("model")
    if model is not None and model != info.model:
        raise RequestError(404, "model_not_found", f"model {shown(model)} is not served here, {shown(info.model)} is")


def parse_encode(body: bytes, query: Mapping[str, str], limits: Limits, info: EncoderInfo) -> EncodeRequest:
    """Parses the binary dialect's {"kind", "texts", "max_tokens", "truncate", "pieces", "model"}."""
    members = _Members(body)
    kind = members.string("kind", KINDS)
    request = EncodeRequest(members.texts("texts", limits, allow_single=False))
    request.kind = _kind_of({"kind": kind}, query)
    request.max_tokens = members.count("max_tokens")
    request.truncate = members.boolean("truncate") is not False
    request.pieces = members.boolean("pieces") is True
    _check_model(members, info)
    members.finish()
    return request


def parse_pooling(body: bytes, query: Mapping[str, str], limits: Limits, info: EncoderInfo) -> EncodeRequest:
    """vLLM's {"model", "task": "token_embed", "input"}."""
    members = _Members(body)
    _check_model(members, info)
    members.string("task", ("token_embed",))
    return _parse_input(members, query, limits)


def parse_embeddings(body: bytes, query: Mapping[str, str], limits: Limits, info: EncoderInfo) -> EncodeRequest:
    """Parses OpenAI's {"model", "input", "encoding_format", "input_type"}, and PyLate's {"input", "is_query"}."""
    members = _Members(body)
    _check_model(members, info)
    dimensions = members.take("dimensions")
    if dimensions is not None and dimensions != info.dim:
        raise _bad(f"dimensions must be {info.dim}, the model's own, is {shown(dimensions)}", 422)
    return _parse_input(members, query, limits)


def _parse_input(members: _Members, query: Mapping[str, str], limits: Limits) -> EncodeRequest:
    """Parses the members that vLLM's and OpenAI's requests share."""
    request = EncodeRequest(members.texts("input", limits, allow_single=True))
    is_query = members.boolean("is_query")
    said = None if is_query is None else QUERY if is_query else DOCUMENT
    request.kind = _kind_of({"input_type": members.string("input_type"), "is_query": said}, query)
    request.base64 = members.string("encoding_format", ("float", "base64")) == "base64"
    request.max_tokens = members.count("max_tokens")
    members.ignore("user", "truncate_prompt_tokens", "priority", "request_id", "normalize", "add_special_tokens")
    members.finish()
    return request


def parse_embed_all(body: bytes, query: Mapping[str, str], limits: Limits, info: EncoderInfo) -> EncodeRequest:
    """text-embeddings-inference's {"inputs", "truncate", "prompt_name"}."""
    members = _Members(body)
    request = EncodeRequest(members.texts("inputs", limits, allow_single=True))
    request.kind = _kind_of({"prompt_name": members.string("prompt_name")}, query)
    request.truncate = members.boolean("truncate") is not False
    members.ignore("truncation_direction")
    members.finish()
    return request


def _vectors(one: Encoded, request: EncodeRequest) -> Any:
    if request.base64:
        return base64.b64encode(one.vectors.astype("<f4").tobytes()).decode("ascii")
    return one.vectors.tolist()


def _json(value: object) -> Tuple[str, bytes]:
    return JSON, json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def render_encode(
    results: List[Encoded], request: EncodeRequest, info: EncoderInfo, limits: Limits
) -> Tuple[str, bytes]:
    """Returns safetensors with "tokens" [all tokens, dim] and "lengths" I64 [texts]. The metadata name the model and,
    if texts were cut, give a JSON list of their indices."""
    name, dtype = DTYPES[limits.dtype]
    tokens = np.concatenate([one.vectors for one in results]).astype(dtype).tobytes()
    lengths = np.array([len(one.vectors) for one in results], dtype="<i8")
    metadata = {"model": info.model, "fingerprint": info.fingerprint}
    if any(one.truncated for one in results):
        metadata["truncated"] = json.dumps([i for i, one in enumerate(results) if one.truncated])
    if request.pieces:
        metadata["pieces"] = json.dumps([one.pieces for one in results], ensure_ascii=False)
    header = {
        "__metadata__": metadata,
        "lengths": {"dtype": "I64", "shape": [len(lengths)], "data_offsets": [0, lengths.nbytes]},
        "tokens": {
            "dtype": name,
            "shape": [int(lengths.sum()), info.dim],
            "data_offsets": [lengths.nbytes, lengths.nbytes + len(tokens)],
        },
    }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)  # the format needs the data to begin at a multiple of eight
    return OCTETS, b"".join([struct.pack("<Q", len(text)), text, lengths.tobytes(), tokens])


def render_pooling(
    results: List[Encoded], request: EncodeRequest, info: EncoderInfo, limits: Limits
) -> Tuple[str, bytes]:
    """vLLM's answer: "data" of each item is [tokens][dim]."""
    data = [{"index": i, "object": "pooling", "data": _vectors(one, request)} for i, one in enumerate(results)]
    answer = {"id": f"pool-{uuid.uuid4().hex}", "object": "list", "created": int(time.time()), "model": info.model}
    return _json({**answer, "data": data, "usage": usage_of(results)})


def render_embeddings(
    results: List[Encoded], request: EncodeRequest, info: EncoderInfo, limits: Limits
) -> Tuple[str, bytes]:
    """Returns OpenAI's answer with one more dimension: the "embedding" of each item is [tokens][dim]."""
    data = [{"index": i, "object": "embedding", "embedding": _vectors(one, request)} for i, one in enumerate(results)]
    return _json({"object": "list", "data": data, "model": info.model, "usage": usage_of(results)})


def render_embed_all(
    results: List[Encoded], request: EncodeRequest, info: EncoderInfo, limits: Limits
) -> Tuple[str, bytes]:
    """text-embeddings-inference's answer: [texts][tokens][dim]."""
    return _json([one.vectors.tolist() for one in results])


Parse = Callable[[bytes, Mapping[str, str], Limits, EncoderInfo], EncodeRequest]
Render = Callable[[List[Encoded], EncodeRequest, EncoderInfo, Limits], Tuple[str, bytes]]

DIALECTS: Dict[str, Tuple[Parse, Render]] = {
    "/encode": (parse_encode, render_encode),
    "/pooling": (parse_pooling, render_pooling),
    "/v1/embeddings": (parse_embeddings, render_embeddings),
    "/embed_all": (parse_embed_all, render_embed_all),
}

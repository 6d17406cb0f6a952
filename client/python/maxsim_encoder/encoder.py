"""The interface between the server and a model."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, NamedTuple, Optional, Protocol, Sequence, runtime_checkable

import numpy as np
import numpy.typing as npt

QUERY = "query"
DOCUMENT = "document"
KINDS = (QUERY, DOCUMENT)

Matrix = npt.NDArray[np.float32]


class EncoderError(Exception):
    """An error that the user who starts the program can fix, such as a missing package. Its text is one line."""


@dataclasses.dataclass(frozen=True)
class EncoderInfo:
    """The identity of an encoder. A collection stores the identity of the encoder of its documents, so that queries of
    another encoder are refused."""

    model: str  # the name under which the model is served
    fingerprint: str  # 16 hexadecimal digits over weights, tokenizer and settings
    dim: int  # values of a token vector
    query_prefix: str  # what the model puts in front of a query, "" for nothing
    document_prefix: str
    query_length: int  # tokens after which a query is cut, marks included
    document_length: int
    query_expansion: bool  # whether short queries are filled up with mask tokens

    def as_json(self) -> Dict[str, Any]:
        return dataclasses.asdict(self)


class Encoded(NamedTuple):
    """One text's token vectors."""

    vectors: Matrix  # [tokens, dim], at least one row
    pieces: Optional[List[str]]  # the word piece of each vector, None if the model does not tell
    truncated: bool = False  # whether the text was longer than length_limit allows, and its end was cut


@runtime_checkable
class Encoder(Protocol):
    """A loaded model. All calls come from one thread."""

    info: EncoderInfo

    def encode(self, texts: Sequence[str], kind: str, max_tokens: Optional[int]) -> List[Encoded]:
        """Encodes texts of one kind, QUERY or DOCUMENT, and returns results in their order. A text is cut after
        `max_tokens` tokens, or after the model's own length if that is shorter or `max_tokens` is None. Marks such as
        [CLS] count as tokens."""
        ...

    def count_tokens(self, texts: Sequence[str], kind: str) -> List[int]:
        """Returns the number of tokens of each text before it is cut, marks included."""
        ...


def length_limit(info: EncoderInfo, kind: str, max_tokens: Optional[int]) -> int:
    """Returns the number of tokens after which a text of this kind is cut."""
    own = info.query_length if kind == QUERY else info.document_length
    return own if max_tokens is None else min(own, max_tokens)


def cut_texts(encoder: Encoder, texts: Sequence[str], kind: str, max_tokens: Optional[int]) -> List[bool]:
    """Returns for each text whether `encode` cuts it. For models whose libraries do not report it: tokenizes the texts
    a second time. An expanded query has a fixed number of tokens, which `max_tokens` does not change."""
    fixed = kind == QUERY and encoder.info.query_expansion
    limit = length_limit(encoder.info, kind, None if fixed else max_tokens)
    return [count > limit for count in encoder.count_tokens(texts, kind)]

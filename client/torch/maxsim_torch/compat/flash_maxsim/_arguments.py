"""Checks arguments of flash-maxsim's functions, and converts them for maxsim_torch's operators."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from ...functions import maxsim_scores


class ArgumentError(AssertionError, ValueError):
    """An argument does not fit. It is caught as flash-maxsim's AssertionError and as maxsim_torch's ValueError."""


# Memory for converted or gathered rows that a call may use in addition to its inputs and results.
_PART_BYTES = 64 * 2**20


def require(holds: bool, message: str) -> None:
    if not holds:
        raise ArgumentError(message)


def require_dims(name: str, tensor: Tensor, form: str) -> None:
    """Checks that it is a tensor with as many dimensions as `form` names, such as "[Lq, d]"."""
    require(isinstance(tensor, Tensor), f"{name} is of type {type(tensor).__name__}; must be a tensor {form}")
    require(tensor.dim() == form.count(",") + 1, f"{name} has shape {tuple(tensor.shape)}; must be {form}")


def require_columns(query_name: str, queries: Tensor, document_name: str, documents: Tensor) -> None:
    require(
        queries.shape[-1] == documents.shape[-1],
        f"{query_name} has {queries.shape[-1]} columns, but {document_name} has {documents.shape[-1]}; must have "
        f"the same number",
    )


def require_forms(**sides: tuple[Tensor, str]) -> None:
    """Checks the dimensions of queries and documents, each with its form, and that they have the same columns."""
    for name, (tensor, form) in sides.items():
        require_dims(name, tensor, form)
    (query_name, (queries, _)), (document_name, (documents, _)) = sides.items()
    require_columns(query_name, queries, document_name, documents)


def alike(queries: Tensor, documents: Tensor) -> tuple[Tensor, Tensor]:
    """Converts queries to the type of the documents, because there are fewer of them. float64 documents become
    float32."""
    if documents.dtype == torch.float64:
        documents = documents.float()
    return queries.to(documents.dtype), documents


def counts(name: str, numbers: Tensor | None, shape: tuple[int, ...]) -> Tensor | None:
    """Returns lengths or indices as integers of `shape`. `numbers` may have any number type, and any shape of the same
    size."""
    if numbers is None:
        return None
    require(isinstance(numbers, Tensor), f"{name} is of type {type(numbers).__name__}; must be a tensor")
    require(
        numbers.numel() == math.prod(shape),
        f"{name} has shape {tuple(numbers.shape)}; {math.prod(shape)} numbers are needed, {list(shape)}",
    )
    numbers = numbers.reshape(shape)
    return numbers if numbers.dtype in (torch.int32, torch.int64) else numbers.to(torch.int32)


def batch(
    queries: Tensor,
    documents: Tensor,
    shared_docs: bool,
    doc_lengths: Tensor | None,
    query_lengths: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Checks queries, documents and the lengths of both, and returns them."""
    require(not isinstance(shared_docs, Tensor), "shared_docs is a tensor; must be a bool, followed by the lengths")
    require_forms(Q=(queries, "[Nq, Lq, d]"), D=(documents, "[B, Ld, d]" if shared_docs else "[Nq, B, Ld, d]"))
    require(
        shared_docs or documents.shape[0] == queries.shape[0],
        f"Q has {queries.shape[0]} queries, but D has documents of {documents.shape[0]}",
    )
    doc_lengths = counts("doc_lengths", doc_lengths, tuple(documents.shape[:-2]))
    query_lengths = counts("query_lengths", query_lengths, (queries.shape[0],))
    return (*alike(queries, documents), doc_lengths, query_lengths)


def batched_scores(
    queries: Tensor,
    documents: Tensor,
    shared_docs: bool,
    doc_lengths: Tensor | None,
    query_lengths: Tensor | None,
) -> Tensor:
    """Returns the scores [Nq, B] of Q [Nq, Lq, d] with D: [B, Ld, d] if all queries share the documents, otherwise [Nq,
    B, Ld, d]. Lengths of documents are [B] or [Nq * B], those of queries [Nq]."""
    queries, documents, doc_lengths, query_lengths = batch(queries, documents, shared_docs, doc_lengths, query_lengths)
    return maxsim_scores(queries, documents, document_lengths=doc_lengths, query_lengths=query_lengths)


def one_query_scores(query: Tensor, documents: Tensor, doc_lengths: Tensor | None) -> Tensor:
    """Returns the scores [B] of Q [Lq, d] with D [B, Ld, d]."""
    require_forms(Q=(query, "[Lq, d]"), D=(documents, "[B, Ld, d]"))
    query, documents = alike(query, documents)
    lengths = counts("doc_lengths", doc_lengths, (documents.shape[0],))
    return maxsim_scores(query, documents, document_lengths=lengths)


def parts(count: int, bytes_each: int) -> Iterator[tuple[int, int]]:
    """Yields ranges that cover 0 .. count. Each takes at most 64 MiB, or is one item if that is larger."""
    size = max(1, _PART_BYTES // max(bytes_each, 1))
    for begin in range(0, count, size):
        yield begin, min(begin + size, count)

"""Packs padded queries and candidates, or scores them without packing."""

import dataclasses
from typing import Any, Iterator

import torch
from torch import Tensor

from ...functions import maxsim_scores
from ._scoring import same_type


@dataclasses.dataclass(frozen=True)
class PackedBatch:
    """The result of pack_padded, on the device of its inputs. It unpacks as a tuple of its fields. B is the number of
    queries, C the number of candidates per query.

    Q_packed [query tokens, d] and cu_seqlens_q [B + 1] (int32). D_packed [document tokens, d] and cu_seqlens_d [B * C +
    1] (int32), with documents in the order of queries and candidates. pair_q_idx and pair_d_idx [B * C] (int32): the
    query and the document of each pair in that order. max_seqlen_q and max_seqlen_d: the longest lengths.
    """

    Q_packed: Tensor
    cu_seqlens_q: Tensor
    D_packed: Tensor
    cu_seqlens_d: Tensor
    pair_q_idx: Tensor
    pair_d_idx: Tensor
    max_seqlen_q: int
    max_seqlen_d: int

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, field.name) for field in dataclasses.fields(self))


def _check_shapes(queries: Tensor, documents: Tensor, query_lengths: Tensor, doc_lengths: Tensor) -> None:
    if queries.dim() != 3:
        raise ValueError(f"queries must be [B, Lq, d]; they are {tuple(queries.shape)}")
    if documents.dim() != 4:
        raise ValueError(f"documents must be [B, C, Ld, d]; they are {tuple(documents.shape)}")
    if queries.shape[0] != documents.shape[0]:
        raise ValueError(
            f"there are {queries.shape[0]} queries and documents of {documents.shape[0]}: a batch size mismatch"
        )
    if queries.shape[-1] != documents.shape[-1]:
        raise ValueError(
            f"queries have {queries.shape[-1]} columns and documents {documents.shape[-1]}: an embedding dim mismatch"
        )
    if query_lengths.shape != queries.shape[:1]:
        raise ValueError(f"query_lengths must be [{queries.shape[0]}]; they are {tuple(query_lengths.shape)}")
    if doc_lengths.shape != documents.shape[:2]:
        raise ValueError(f"doc_lengths must be {list(documents.shape[:2])}; they are {tuple(doc_lengths.shape)}")


def _check_lengths(
    query_lengths: Tensor, doc_lengths: Tensor, num_query: int, num_document: int, validate: bool
) -> None:
    """Checks lengths. A length beyond the padding is a RuntimeError, which on a GPU comes with a later call. With
    `validate`, which waits for a GPU, such a length and a length of 0 or less are a ValueError immediately."""
    if validate:
        for name, lengths, limit in (
            ("query_lengths", query_lengths, num_query),
            ("doc_lengths", doc_lengths, num_document),
        ):
            if lengths.numel() and int(lengths.min()) <= 0:
                raise ValueError(f"{name} must all be > 0; the least is {int(lengths.min())}")
            if lengths.numel() and int(lengths.max()) > limit:
                raise ValueError(f"{name} exceed the {limit} tokens of the padding: the most is {int(lengths.max())}")
    torch._assert_async(
        (query_lengths <= num_query).all(), f"query_lengths exceed the {num_query} tokens of the padding"
    )
    torch._assert_async(
        (doc_lengths <= num_document).all(), f"doc_lengths exceed the {num_document} tokens of the padding"
    )


def _offsets(lengths: Tensor) -> Tensor:
    """Returns where sequences of these lengths begin if they follow one another, and where the last one ends: int32,
    [count + 1]."""
    ends = lengths.reshape(-1).cumsum(0, dtype=torch.int32)
    return torch.nn.functional.pad(ends, (1, 0))


def _rows_that_count(tokens: Tensor, lengths: Tensor) -> Tensor:
    """Returns, as one matrix, the rows of padded sequences [..., max_tokens, d] that are within the lengths [...]."""
    position = torch.arange(tokens.shape[-2], device=tokens.device)
    return tokens[position < lengths.unsqueeze(-1)]


def pack_padded(
    queries: Tensor,
    documents: Tensor,
    query_lengths: Tensor,
    doc_lengths: Tensor,
    *,
    validate: bool = False,
) -> PackedBatch:
    """Packs queries [B, Lq, d] and documents [B, C, Ld, d] for score_pairs_packed and maxsim_varlen.

    `query_lengths` [B] and `doc_lengths` [B, C] are the numbers of tokens. Gradients flow through. Waits for a GPU,
    because the lengths decide the shapes. A length beyond the padding is an error: with `validate`, a ValueError
    immediately, otherwise a RuntimeError, which on a GPU comes with a later call. ValueError: shapes do not fit.
    """
    _check_shapes(queries, documents, query_lengths, doc_lengths)
    device = queries.device
    query_lengths = query_lengths.to(device=device, dtype=torch.int32)
    doc_lengths = doc_lengths.to(device=device, dtype=torch.int32)
    _check_lengths(query_lengths, doc_lengths, queries.shape[1], documents.shape[2], validate)

    num_candidates = documents.shape[1]
    pair_d_idx = torch.arange(documents.shape[0] * num_candidates, dtype=torch.int32, device=device)
    longest = [0, 0]
    if doc_lengths.numel():
        longest = torch.stack([query_lengths.max(), doc_lengths.max()]).tolist()
    elif query_lengths.numel():
        longest[0] = int(query_lengths.max())
    return PackedBatch(
        Q_packed=_rows_that_count(queries, query_lengths),
        cu_seqlens_q=_offsets(query_lengths),
        D_packed=_rows_that_count(documents, doc_lengths),
        cu_seqlens_d=_offsets(doc_lengths),
        pair_q_idx=pair_d_idx // max(num_candidates, 1),
        pair_d_idx=pair_d_idx,
        max_seqlen_q=longest[0],
        max_seqlen_d=longest[1],
    )


def maxsim_padded(
    queries: Tensor,
    documents: Tensor,
    query_lengths: Tensor,
    doc_lengths: Tensor,
    *,
    validate: bool = False,
) -> Tensor:
    """Returns the scores [B, C] in float32 of queries [B, Lq, d] with their own candidates [B, C, Ld, d]. Both have
    gradients.

    `query_lengths` [B] and `doc_lengths` [B, C] are the numbers of tokens. Nothing is packed or copied, and the call
    does not wait for a GPU except with `validate`. The CPU ignores `validate`, as late-interaction-kernels does. An
    empty query or document scores 0. Errors are those of pack_padded.
    """
    _check_shapes(queries, documents, query_lengths, doc_lengths)
    query_lengths = query_lengths.to(queries.device)
    doc_lengths = doc_lengths.to(queries.device)
    _check_lengths(query_lengths, doc_lengths, queries.shape[1], documents.shape[2], validate and queries.is_cuda)
    queries, documents = same_type(queries, documents)
    return maxsim_scores(queries, documents, query_lengths=query_lengths, document_lengths=doc_lengths, empty_score=0.0)


__all__ = ["PackedBatch", "maxsim_padded", "pack_padded"]

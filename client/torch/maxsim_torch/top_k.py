"""Retrieval: the best of many documents, which may be more than the device of the queries holds."""

import functools
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from .checks import (
    MAX_DOCUMENT_TOKENS,
    check_optional_tensors,
    check_tensors,
    checked_count,
    explain_offsets,
    explain_values,
    explained,
)
from .document_blocks import with_one_more
from .functions import maxsim_scores, maxsim_scores_packed
from .host_blocks import HostBlocks
from .tokens import indices

# Limits of a block's document vectors (in bytes) and scores, if the caller does not set the block's documents. A copy
# of 128 MiB takes 2 to 5 ms over PCI Express, longer than a launch and a merge. Two blocks are in memory at a time.
_BLOCK_BYTES = 128 << 20
_BLOCK_SCORES = 1 << 22


class ScoresAndIndices(NamedTuple):
    """The best scores in float32, from the highest on, and in int64 the documents that have them."""

    scores: Tensor
    indices: Tensor


class _Documents(NamedTuple):
    """All tensors that are cut into blocks together. Document d has row d of a tensor or, if the tensor has one row for
    each token (`of_tokens`), the rows first[d] to first[d+1]. `host_offsets` and `device_offsets` are the offsets of
    packed documents, in the CPU's memory and on the device."""

    tensors: "dict[str, Tensor]"
    of_tokens: "set[str]"
    num_documents: int
    host_offsets: Optional[List[int]]
    device_offsets: Optional[Tensor]


def _cut(documents: _Documents, num_queries: int, asked: Optional[int]) -> "list[tuple[int, int]]":
    """Returns the first document of each block, and the document after its last."""
    count = documents.num_documents
    rows = documents.tensors["documents"]
    row_bytes = rows.element_size() * rows.shape[-1]
    most = asked or max(1, _BLOCK_SCORES // max(1, num_queries))
    if documents.host_offsets is None:
        if asked is None:
            most = max(1, min(most, _BLOCK_BYTES // max(1, row_bytes * rows.shape[1])))
        return [(first, min(first + most, count)) for first in range(0, count, most)]
    offsets, result, first = documents.host_offsets, [], 0
    for document in range(count):
        full = document - first == most
        if asked is None and document > first:
            full = full or (offsets[document + 1] - offsets[first]) * row_bytes > _BLOCK_BYTES
        if full:
            result.append((first, document))
            first = document
    return [*result, (first, count)] if first < count else result


def _blocks(
    documents: _Documents, cuts: "Sequence[tuple[int, int]]", device: torch.device
) -> "Iterator[dict[str, Tensor]]":
    """The tensors of each block, on the device."""
    names = list(documents.tensors)
    offsets = documents.host_offsets
    ranges = [
        [(offsets[a], offsets[b]) if offsets and name in documents.of_tokens else (a, b) for name in names]
        for a, b in cuts
    ]
    tensors = [documents.tensors[name] for name in names]
    if tensors[0].device == device:
        for block in ranges:
            yield {name: tensor[a:b] for name, tensor, (a, b) in zip(names, tensors, block)}
    else:
        for parts in HostBlocks(tensors, ranges, device):
            yield dict(zip(names, parts))


def _merge(best: ScoresAndIndices, scores: Tensor, first: int, k: int) -> ScoresAndIndices:
    """Returns the k best of the previous documents and of a block [Nq, n], whose documents begin with `first` and
    have larger indices. Sorts are stable, so the smaller of two indices with equal scores comes first."""
    scores = scores + 0.0  # a sort may tell -0 from 0
    values, order = scores.sort(dim=1, descending=True, stable=True)
    values, indices = values[:, :k], order[:, :k] + first
    values, indices = torch.cat([best.scores, values], 1), torch.cat([best.indices, indices], 1)
    values, order = values.sort(dim=1, descending=True, stable=True)
    return ScoresAndIndices(values[:, :k].contiguous(), indices.gather(1, order[:, :k]))


def _take(
    documents: Tensor, document_offsets: Optional[Tensor], more: "dict[str, Optional[Tensor]]", device: torch.device
) -> _Documents:
    """Checks the documents, and returns how they are divided into blocks."""
    packed = document_offsets is not None
    if documents.dim() != (2 if packed else 3):
        wanted = "[tokens, d]" if packed else "[Nd, Ld, d]"
        raise ValueError(f"documents have shape {tuple(documents.shape)}; must be {wanted}")
    if documents.device != device and (documents.device.type != "cpu" or device.type != "cuda"):
        raise ValueError(
            f"documents are on {documents.device} and queries on {device}; both must be on one device, or "
            f"queries on cuda and documents on cpu"
        )
    tensors = {"documents": documents}
    count = documents.shape[0]
    if document_offsets is not None:
        if document_offsets.dim() != 1 or document_offsets.shape[0] == 0:
            shape = tuple(document_offsets.shape)
            raise ValueError(f"document_offsets have shape {shape}; must be [Nd + 1]")
        document_offsets = indices("document_offsets", document_offsets, tuple(document_offsets.shape))
        count = document_offsets.shape[0] - 1
    for name, tensor in more.items():
        if tensor is None:
            continue
        if tensor.device != documents.device:
            raise ValueError(f"{name} is on {tensor.device}, but documents are on {documents.device}")
        if name == "document_scales" and tensor.dim() == 0:
            tensor = tensor.expand(count)
        if name == "document_lengths":
            tensor = indices(name, tensor, (count,))
        tensors[name] = tensor
    of_tokens = {"documents", "document_mask"} if packed else set()
    host_offsets: Optional[List[int]] = None
    device_offsets: Optional[Tensor] = None
    if document_offsets is not None:
        host_offsets = document_offsets.tolist()
        explain_offsets("document", host_offsets, documents.shape[0], MAX_DOCUMENT_TOKENS)
        scales = more["document_scales"]
        if scales is not None and tuple(scales.shape) in ((documents.shape[0],), (documents.shape[0], 1)):
            if tuple(scales.shape) != (count,):
                tensors["document_scales"] = scales.reshape(-1, 1)
                of_tokens.add("document_scales")
            elif count > 1:
                raise ValueError(
                    f"document_scales have shape {tuple(scales.shape)}, but there are as many documents as tokens; "
                    f"make them [tokens, 1], a scale for each token"
                )
        device_offsets = document_offsets.to(device)
    for name, tensor in tensors.items():
        rows = documents.shape[0] if name in of_tokens else count
        if tensor.dim() == 0 or tensor.shape[0] != rows:
            raise ValueError(f"{name} have shape {tuple(tensor.shape)}; their first dimension must be {rows}")
    return _Documents(tensors, of_tokens, count, host_offsets, device_offsets)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def maxsim_top_k(
    queries: Tensor,
    documents: Tensor,
    k: int,
    *,
    document_offsets: Optional[Tensor] = None,
    document_lengths: Optional[Tensor] = None,
    document_mask: Optional[Tensor] = None,
    document_scales: Optional[Tensor] = None,
    query_lengths: Optional[Tensor] = None,
    query_mask: Optional[Tensor] = None,
    query_scales: Optional[Tensor] = None,
    weights: Optional[Tensor] = None,
    empty_score: float = float("-inf"),
    block_documents: Optional[int] = None,
) -> ScoresAndIndices:
    """Returns the `k` best documents of each query, and their MaxSim scores.

    The result is (scores, indices): [Nq, k] in float32 and [Nq, k] in int64, or for one query [Lq, d] twice [k].
    Documents are in order of decreasing score; of equal scores the smaller index comes first. So the result depends
    only on the scores, and not on how documents are divided into blocks.

    `documents` are padded [Nd, Ld, d], or with `document_offsets` [Nd + 1] packed [tokens, d]. They are on the device
    of the queries; or the queries are on a GPU and the documents in the CPU's memory, which may be mapped from a file
    (torch.from_numpy of a numpy.memmap). Documents in the CPU's memory are copied to the GPU in blocks: one block is
    copied while the GPU scores the previous one. Copies are fastest from pinned memory; documents in other memory are
    first copied into two pinned buffers, each as large as a block. `document_lengths`, `document_mask` and
    `document_scales` are on the documents' device.

    `block_documents` is the number of documents in a block. With None a block has as many documents as fit into 128 MiB
    of vectors and 2^22 scores (documents times queries). The call needs this memory on the device beside queries and
    result: two blocks if documents are in the CPU's memory, and about ten times the scores of a block.

    All other arguments, and types, are those of maxsim_scores (of maxsim_scores_packed with document_offsets). `k` is 1
    to Nd. A document without tokens has the score `empty_score` and is ranked by it. The result has no gradients, and
    torch.compile does not trace the call. The call waits for the device to read `document_offsets`, and for the copies
    of documents that are in the CPU's memory; otherwise it does not wait for the device.

    Raises ValueError for shapes, devices, offsets or numbers that do not fit, and all errors of maxsim_scores.
    """
    check_tensors(queries=queries, documents=documents)
    check_optional_tensors(
        document_offsets=document_offsets,
        document_lengths=document_lengths,
        document_mask=document_mask,
        document_scales=document_scales,
    )
    if queries.dim() not in (2, 3):
        raise ValueError(f"queries have shape {tuple(queries.shape)}; must be [Nq, Lq, d] or [Lq, d]")
    if block_documents is not None:
        block_documents = checked_count("block_documents", block_documents, 1)
    if document_offsets is not None and document_lengths is not None:
        raise ValueError("packed documents take document_offsets, not document_lengths")
    more = {
        "document_lengths": document_lengths,
        "document_mask": document_mask,
        "document_scales": document_scales,
    }
    taken = _take(documents, document_offsets, more, queries.device)
    k = checked_count("k", k, 0)
    if not 1 <= k <= taken.num_documents:
        raise ValueError(f"k is {k}; must be 1 to {taken.num_documents}, the number of documents")
    num_queries = queries.shape[0] if queries.dim() == 3 else 1
    cuts = _cut(taken, num_queries, block_documents)
    best = ScoresAndIndices(
        queries.new_empty((num_queries, 0), dtype=torch.float32), queries.new_empty((num_queries, 0), dtype=torch.int64)
    )
    with torch.no_grad():
        for (first, end), block in zip(cuts, _blocks(taken, cuts, queries.device)):
            given = {
                "query_lengths": query_lengths,
                "query_mask": query_mask,
                "query_scales": query_scales,
                "weights": weights,
                "empty_score": empty_score,
            }
            scores = explained(
                functools.partial(_score_block, queries, block, taken.device_offsets, first, end, given),
                lambda: explain_values("document_lengths", document_lengths, documents.shape[1]),
            )
            best = _merge(best, scores.reshape(num_queries, end - first), first, k)
    if queries.dim() == 2:
        return ScoresAndIndices(best.scores[0], best.indices[0])
    return best


def _score_block(
    queries: Tensor,
    block: "dict[str, Tensor]",
    offsets: Optional[Tensor],
    first: int,
    end: int,
    more: "dict[str, Any]",
) -> Tensor:
    """The scores of a block's documents."""
    given: "dict[str, Any]" = {**block, **more}
    rows = given.pop("documents")
    result: Tensor
    if offsets is None:
        result = maxsim_scores(queries, rows, **given)
    else:
        part = offsets[first : end + 1] - offsets[first]
        scales = block.get("document_scales")
        if scales is not None and tuple(scales.shape) == (rows.shape[0],):
            # Scales are per document here. If there are as many documents as tokens, they would be taken for scales
            # per token. An extra row, which is never read, prevents this.
            rows = with_one_more(rows)
            if "document_mask" in block:
                given["document_mask"] = with_one_more(block["document_mask"])
        result = maxsim_scores_packed(queries, rows, part, **given)
    return result

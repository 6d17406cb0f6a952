"""Scores documents that do not fit into the GPU's memory. Also has another name of flash_maxsim."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ._arguments import one_query_scores, require, require_forms
from .flash_maxsim import flash_maxsim


@torch.no_grad()
def flash_maxsim_heuristic(Q: Tensor, D: Tensor, doc_lengths: Tensor | None = None) -> Tensor:
    """Returns the scores [B] of Q [Lq, d] with documents D [B, Ld, d], whose lengths are doc_lengths [B]."""
    return one_query_scores(Q, D, doc_lengths)


def _streamed(query: Tensor, documents: Tensor, chunk_size: int, scorer: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Scores documents in host memory, `chunk_size` at a time. Uses two buffers on the GPU: another stream fills one,
    while the current stream scores the other."""
    compute = torch.cuda.current_stream(query.device)
    copy = torch.cuda.Stream(query.device)  # type: ignore[no-untyped-call]
    scores = torch.empty(documents.shape[0], dtype=torch.float32, device=query.device)
    buffers = [
        torch.empty((chunk_size, *documents.shape[1:]), dtype=documents.dtype, device=query.device) for _ in range(2)
    ]
    for buffer in buffers:
        buffer.record_stream(copy)
    # The buffers' memory may have belonged to another tensor. Work on that tensor in the current stream must end before
    # the first copies.
    scored = [compute.record_event(), compute.record_event()]
    for index, chunk in enumerate(torch.split(documents, chunk_size)):
        buffer = buffers[index % 2][: chunk.shape[0]]
        with torch.cuda.stream(copy):
            copy.wait_event(scored[index % 2])
            buffer.copy_(chunk, non_blocking=True)
        compute.wait_event(copy.record_event())
        begin = index * chunk_size
        scores[begin : begin + chunk.shape[0]] = scorer(query, buffer)
        scored[index % 2] = compute.record_event()
    return scores


@torch.no_grad()
def flash_maxsim_streamed(
    Q: Tensor,
    D_cpu: Tensor,
    chunk_size: int = 10_000,
    scorer: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Tensor:
    """Returns the scores [B] of Q [Lq, d] with D_cpu [B, Ld, d] in host memory. Scores `chunk_size` documents at a
    time. On a GPU, if D_cpu is pinned, the next documents are copied during the scoring of the present ones. `scorer`
    (default flash_maxsim) gets Q and some documents on Q's device, and returns their scores."""
    require_forms(Q=(Q, "[Lq, d]"), D_cpu=(D_cpu, "[B, Ld, d]"))
    require(chunk_size > 0, f"chunk_size is {chunk_size}; must be 1 or more")
    score = flash_maxsim if scorer is None else scorer
    if chunk_size >= D_cpu.shape[0]:
        return score(Q, D_cpu.to(Q.device, non_blocking=True))
    if Q.device.type != "cuda":
        return torch.cat([score(Q, chunk) for chunk in torch.split(D_cpu, chunk_size)])
    return _streamed(Q, D_cpu, chunk_size, score)

"""Makes a first call of each kind, so that a service's first request need not load kernels."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from .flash_maxsim import flash_maxsim_batched
from .flash_maxsim_batched_train import flash_maxsim_batched_train

# (B, Lq, Ld, d). Kernels are precompiled, so one shape of each kind loads the kernels for all shapes.
DEFAULT_SHAPES = [(64, 32, 180, 128), (16, 1024, 1024, 128), (16, 32, 180, 768)]
DEFAULT_TRAIN_SHAPES = [(16, 32, 180, 128), (4, 1024, 1024, 128)]


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def warmup(
    shapes: Sequence[tuple[int, int, int, int]] | None = None,
    train_shapes: Sequence[tuple[int, int, int, int]] | None = None,
    device: torch.device | str | None = None,
    verbose: bool = False,
) -> dict[str, float]:
    """Scores shapes (B, Lq, Ld, d) once, and `train_shapes` with a backward pass, in float16 on `device` (by default
    the GPU if there is one). Returns the number of shapes that worked and the time: {"fwd_shapes", "bwd_shapes",
    "wall_seconds"}. Skips a shape that fails, for example because memory is too small; with `verbose`, prints the
    reason."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(device)
    begin = time.perf_counter()
    worked = {"fwd_shapes": 0, "bwd_shapes": 0}
    for kind, train, listed in (
        ("fwd_shapes", False, DEFAULT_SHAPES if shapes is None else shapes),
        ("bwd_shapes", True, DEFAULT_TRAIN_SHAPES if train_shapes is None else train_shapes),
    ):
        for num_documents, query_tokens, document_tokens, dim in listed:
            try:
                num_queries = num_documents if train else 1
                queries = torch.randn(num_queries, query_tokens, dim, device=device, dtype=torch.float16)
                documents = torch.randn(num_documents, document_tokens, dim, device=device, dtype=torch.float16)
                if train:
                    scores = flash_maxsim_batched_train(queries.requires_grad_(), documents.requires_grad_())
                    torch.autograd.backward(scores.sum())
                else:
                    flash_maxsim_batched(queries, documents)
                _synchronize(device)
            except (RuntimeError, ValueError, MemoryError) as problem:
                if verbose:
                    print(f"{kind} {(num_documents, query_tokens, document_tokens, dim)}: {problem}", flush=True)
                continue
            worked[kind] += 1
            if verbose:
                print(f"{kind} {(num_documents, query_tokens, document_tokens, dim)}: done", flush=True)
    return {**worked, "wall_seconds": time.perf_counter() - begin}

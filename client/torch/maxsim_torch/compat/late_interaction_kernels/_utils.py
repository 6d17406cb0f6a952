"""Small helpers that the modules share, and those helpers of late-interaction-kernels that its users import."""

import functools
import importlib.metadata
from typing import Optional

import torch
from torch import Tensor


def next_pow2(x: int) -> int:
    """Returns the smallest power of two that is at least `x`; 1 if `x` is 0 or less."""
    return 1 << max(x - 1, 0).bit_length()


def bucket_seqlen(max_len: int, floor: int = 16) -> int:
    """Returns `max_len` rounded up to a power of two of at least `floor`; 0 if there is no token."""
    return max(floor, next_pow2(max_len)) if max_len > 0 else 0


def assert_max_seqlen_covers(cu_seqlens: Tensor, max_seqlen: int, arg_name: str) -> None:
    """Raises RuntimeError if a sequence of `cu_seqlens` [sequences + 1] has more than `max_seqlen` tokens. On a GPU,
    the check does not wait: the error comes with a later call, and the CUDA context is lost."""
    if cu_seqlens.numel() <= 1:
        return
    longest = (cu_seqlens[1:] - cu_seqlens[:-1]).max()
    torch._assert_async(
        longest <= max_seqlen,
        f"{arg_name}={max_seqlen} is smaller than the longest sequence of cu_seqlens, whose last ones would not count",
    )


def _release(version: str) -> "tuple[int, ...]":
    """Returns the numbers at the beginning of a version: (1, 5, 1) for "1.5.1rc2"."""
    numbers = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def package_at_least(name: str, minimum: str) -> bool:
    """Returns whether the distribution `name` is installed in the release `minimum` or a later one. Ignores what
    follows the numbers of a version: "1.5.1.dev0" counts as "1.5.1"."""
    try:
        return _release(importlib.metadata.version(name)) >= _release(minimum)
    except importlib.metadata.PackageNotFoundError:
        return False


# The families of GPUs that have their own name, by compute capability.
_FAMILIES = {(8, 0): "a100", (8, 9): "ada"}


@functools.lru_cache(maxsize=1)
def detect_gpu() -> str:
    """Returns the family of the current GPU: "hopper", "blackwell", "a100", "ada" (also for consumer Blackwell),
    "ampere", or "generic" for any other GPU and without a GPU."""
    if not torch.cuda.is_available():
        return "generic"
    major, minor = torch.cuda.get_device_capability()
    if major >= 10:
        return "ada" if major == 12 else "blackwell"
    if major == 9:
        return "hopper"
    return _FAMILIES.get((major, minor), "ampere" if major == 8 else "generic")


def ensure_contiguous_last(x: Tensor) -> Tensor:
    """Returns `x`, or a copy of it if its last dimension is not contiguous."""
    return x if x.stride(-1) == 1 else x.contiguous()


def pick_compute_dtype(Q: Tensor, D: Tensor) -> torch.dtype:
    """Returns a type that holds both queries and documents, because the operators take both in one type. float64
    becomes float32."""
    dtype = torch.promote_types(Q.dtype, D.dtype)
    return torch.float32 if dtype == torch.float64 else dtype


def longest_sequence(cu_seqlens: Tensor, given: Optional[int], arg_name: str) -> int:
    """Returns an upper limit of the tokens per sequence. If the caller gives one, checks it as assert_max_seqlen_covers
    does. Otherwise reads the longest length from `cu_seqlens`, which waits for a GPU."""
    if given is not None:
        assert_max_seqlen_covers(cu_seqlens, int(given), arg_name)
        return int(given)
    if cu_seqlens.numel() <= 1:
        return 0
    return int((cu_seqlens[1:] - cu_seqlens[:-1]).max().item())

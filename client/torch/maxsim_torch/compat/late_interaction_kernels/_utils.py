"""Small things that the modules share, and those helpers of the package that its users import."""

import functools
import importlib.metadata
from typing import Optional

import torch
from torch import Tensor


def next_pow2(x: int) -> int:
    """The smallest power of two that is `x` or more; 1 for 0 and for what is below."""
    return 1 << max(x - 1, 0).bit_length()


def bucket_seqlen(max_len: int, floor: int = 16) -> int:
    """`max_len` rounded up to a power of two that is `floor` or more; 0 if there is no token."""
    return max(floor, next_pow2(max_len)) if max_len > 0 else 0


def assert_max_seqlen_covers(cu_seqlens: Tensor, max_seqlen: int, arg_name: str) -> None:
    """Raises a RuntimeError where a sequence of `cu_seqlens` [sequences + 1] has more than `max_seqlen` tokens. On a
    GPU nothing waits for the check: the error comes with a later call, and the CUDA context is lost."""
    if cu_seqlens.numel() <= 1:
        return
    longest = (cu_seqlens[1:] - cu_seqlens[:-1]).max()
    torch._assert_async(
        longest <= max_seqlen,
        f"{arg_name}={max_seqlen} is smaller than the longest sequence of cu_seqlens, whose last ones would not count",
    )


def _release(version: str) -> "tuple[int, ...]":
    """The numbers at the beginning of a version: (1, 5, 1) of "1.5.1rc2"."""
    numbers = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def package_at_least(name: str, minimum: str) -> bool:
    """Whether the distribution `name` is installed in the release `minimum` or a later one. What follows the numbers of
    a version does not count: "1.5.1.dev0" is "1.5.1"."""
    try:
        return _release(importlib.metadata.version(name)) >= _release(minimum)
    except importlib.metadata.PackageNotFoundError:
        return False


# The families of GPUs that have a name of their own, by compute capability.
_FAMILIES = {(8, 0): "a100", (8, 9): "ada"}


@functools.lru_cache(maxsize=1)
def detect_gpu() -> str:
    """The family of the current GPU: "hopper", "blackwell", "a100", "ada" (consumers' Blackwell too), "ampere", or
    "generic" for others and for none."""
    if not torch.cuda.is_available():
        return "generic"
    major, minor = torch.cuda.get_device_capability()
    if major >= 10:
        return "ada" if major == 12 else "blackwell"
    if major == 9:
        return "hopper"
    return _FAMILIES.get((major, minor), "ampere" if major == 8 else "generic")


def ensure_contiguous_last(x: Tensor) -> Tensor:
    """`x`, copied where its last dimension is not contiguous."""
    return x if x.stride(-1) == 1 else x.contiguous()


def pick_compute_dtype(Q: Tensor, D: Tensor) -> torch.dtype:
    """The type that holds queries and documents both: the operators take them in one type. float64 becomes float32."""
    dtype = torch.promote_types(Q.dtype, D.dtype)
    return torch.float32 if dtype == torch.float64 else dtype


def longest_sequence(cu_seqlens: Tensor, given: Optional[int], arg_name: str) -> int:
    """The bound of the tokens of a sequence: `given` where the caller knows one, which is checked as in
    assert_max_seqlen_covers, and otherwise the longest of `cu_seqlens`, which waits for a GPU."""
    if given is not None:
        assert_max_seqlen_covers(cu_seqlens, int(given), arg_name)
        return int(given)
    if cu_seqlens.numel() <= 1:
        return 0
    return int((cu_seqlens[1:] - cu_seqlens[:-1]).max().item())

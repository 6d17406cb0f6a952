"""Tensors of a call of the library: checked, kept until the call has returned, and given a workspace."""

import ctypes
from typing import Any, Callable, Optional, Sequence, Tuple

import torch
from torch import Tensor

from . import library

TYPES = {torch.float32: library.F32, torch.float16: library.F16, torch.bfloat16: library.BF16}
INDEX_TYPES = {torch.int64: library.INT64, torch.int32: library.INT32}

# The address of a device's current stream, without an object around it. Not promised to anybody, so it may be missing.
_stream_address: "Optional[Callable[[int], int]]" = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def _current_stream(device: torch.device) -> int:
    if _stream_address is not None:
        return _stream_address(device.index)
    return torch.cuda.current_stream(device).cuda_stream


class CallMemory:
    """A ctypes structure that begins with struct_size and device, and has the members num_threads, stream, workspace
    and workspace_bytes, over tensors of one device, which it keeps."""

    def __init__(self, structure: "type[ctypes.Structure]", device: torch.device):
        kind = device.type
        if kind not in ("cpu", "cuda"):
            raise NotImplementedError(f"tensors are on {device}; maxsim_torch computes on cpu and cuda")
        self.on_cuda = kind == "cuda"
        if self.on_cuda and torch.version.hip is not None:
            raise NotImplementedError(f"tensors are on {device} of ROCm {torch.version.hip}, and not of CUDA")
        self.kept: list[Any] = []
        self.device = device
        call: Any = structure(ctypes.sizeof(structure), library.CUDA if self.on_cuda else library.CPU)
        if self.on_cuda:
            call.stream = _current_stream(device)
        else:
            call.num_threads = torch.get_num_threads()
        self.call = call

    def address(self, tensor: Optional[Tensor]) -> Optional[int]:
        """The address of a tensor's elements, made contiguous; None for none."""
        if tensor is None:
            return None
        if tensor.device != self.device:
            raise ValueError(f"a tensor of the call is on {tensor.device}, and others are on {self.device}")
        tensor = tensor.contiguous()
        self.kept.append(tensor)
        return tensor.data_ptr() or None

    def address_of(self, structure: ctypes.Structure) -> int:
        """The address of another structure of the call."""
        self.kept.append(structure)
        return ctypes.addressof(structure)

    def take(self, inputs: Any) -> None:
        """Writes the fields of a NamedTuple into the members with their names: addresses of tensors, and numbers."""
        for name, value in zip(inputs._fields, inputs):
            is_tensor = value is None or isinstance(value, Tensor)
            setattr(self.call, name, self.address(value) if is_tensor else value)

    def forward(self, passes: library.Passes, results: "Tuple[Tensor, Tensor]", *codes: Any) -> None:
        """Computes the forward pass into `results`: values, and matches, which may be empty."""
        values, matches = results
        self._compute(
            passes.forward, passes, library.FORWARD, codes, values.data_ptr() or None, matches.data_ptr() or None
        )

    def backward(
        self,
        passes: library.Passes,
        given: "Sequence[Tensor]",
        results: "Sequence[Optional[Tensor]]",
        *codes: Any,
        with_workspace: bool = True,
    ) -> None:
        """Computes the backward pass out of `given`, what the structure of gradients begins with, into `results`, its
        other members; those that are empty or None are not computed."""
        structure = passes.gradients
        gradients = structure(
            ctypes.sizeof(structure),
            *map(self.address, given),
            *[None if tensor is None else tensor.data_ptr() or None for tensor in results],
        )
        sized = passes if with_workspace else None
        self._compute(passes.backward, sized, library.BACKWARD, codes, gradients)

    def _compute(
        self,
        function: "Callable[..., int]",
        sized: Optional[library.Passes],
        which: int,
        codes: "Tuple[Any, ...]",
        *arguments: Any,
    ) -> None:
        """Calls function(call, *codes, *arguments), on CUDA with the tensors' device as the current one and with the
        workspace that the pass `which` needs according to `sized`."""
        if not self.on_cuda:
            library.check(function(self.call, *codes, *arguments))
            return
        with torch.cuda.device(self.device.index):
            size = 0 if sized is None else sized.workspace_bytes(self.call, which, *codes)
            if size > 0:
                workspace = torch.empty(size, dtype=torch.uint8, device=self.device)
                self.kept.append(workspace)
                self.call.workspace = workspace.data_ptr()
                self.call.workspace_bytes = size
            library.check(function(self.call, *codes, *arguments))


def index_type(*lengths: Optional[Tensor]) -> int:
    """The type of lengths, which is one for all that are there."""
    for tensor in lengths:
        if tensor is not None:
            return INDEX_TYPES[tensor.dtype]
    return library.INT64

"""Tensors of a call of the library: checked, kept until the call has returned, and given a workspace."""

import ctypes
from typing import Any, Callable, Optional, Sequence

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
    """A ctypes structure with the members struct_size, device, num_threads, stream, workspace and workspace_bytes, over
    tensors of one device, which it keeps."""

    def __init__(self, structure: "type[ctypes.Structure]", device: torch.device):
        kind = device.type
        if kind not in ("cpu", "cuda"):
            raise NotImplementedError(f"tensors are on {device}; maxsim_torch computes on cpu and cuda")
        self.on_cuda = kind == "cuda"
        if self.on_cuda and torch.version.hip is not None:
            raise NotImplementedError(f"tensors are on {device} of ROCm {torch.version.hip}, and not of CUDA")
        self.kept: list[Any] = []
        self.device = device
        self.call: Any = structure(ctypes.sizeof(structure))
        self.call.device = library.CUDA if self.on_cuda else library.CPU
        if self.on_cuda:
            self.call.stream = _current_stream(device)
        else:
            self.call.num_threads = torch.get_num_threads()

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
        """Sets the call's members to the fields of a NamedTuple with the same names: a tensor as its address, a number
        as it is."""
        for name, value in zip(inputs._fields, inputs):
            is_tensor = value is None or isinstance(value, Tensor)
            setattr(self.call, name, self.address(value) if is_tensor else value)

    def forward(self, passes: library.Passes, results: "Sequence[Tensor]", *codes: Any) -> None:
        """Runs the forward pass, which writes `results`: the values, and the matches, which may be empty."""
        addresses = [tensor.data_ptr() or None for tensor in results]
        self._compute(
            passes.forward,
            lambda: passes.workspace_bytes(self.call, library.FORWARD, *codes),
            *codes,
            *addresses,
        )

    def backward(
        self,
        passes: library.Passes,
        given: "Sequence[Tensor]",
        results: "Sequence[Optional[Tensor]]",
        *codes: Any,
        with_workspace: bool = True,
    ) -> None:
        """Runs the backward pass. `given` are the first members of the structure of gradients, which it reads;
        `results` are the others, which it writes. A result that is empty or None is not computed."""
        structure = passes.gradients
        gradients = structure(
            ctypes.sizeof(structure),
            *map(self.address, given),
            *(None if tensor is None else tensor.data_ptr() or None for tensor in results),
        )
        self._compute(
            passes.backward,
            lambda: passes.workspace_bytes(self.call, library.BACKWARD, *codes) if with_workspace else 0,
            *codes,
            gradients,
        )

    def _compute(self, function: "Callable[..., None]", size_of: "Callable[[], int]", *arguments: Any) -> None:
        """Calls function(call, *arguments). On CUDA, makes the tensors' device the current one and gives the call a
        workspace of size_of() bytes."""
        if not self.on_cuda:
            function(self.call, *arguments)
            return
        with torch.cuda.device(self.device.index):
            size = size_of()
            if size > 0:
                workspace = torch.empty(size, dtype=torch.uint8, device=self.device)
                self.kept.append(workspace)
                self.call.workspace = workspace.data_ptr()
                self.call.workspace_bytes = size
            function(self.call, *arguments)


def index_type(*lengths: Optional[Tensor]) -> int:
    """The type of lengths, which is one for all that are there."""
    for tensor in lengths:
        if tensor is not None:
            return INDEX_TYPES[tensor.dtype]
    return library.INT64

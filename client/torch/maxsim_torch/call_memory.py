"""The tensors of a library call: checks them, keeps them until the call has returned, and allocates the workspace."""

import ctypes
from typing import Any, Callable, Optional, Sequence, Tuple

import torch
from torch import Tensor

from . import library

TYPES = {torch.float32: library.F32, torch.float16: library.F16, torch.bfloat16: library.BF16}
INDEX_TYPES = {torch.int64: library.INT64, torch.int32: library.INT32}

# Returns the address of a device's current stream without creating a stream object. This is a private function of
# PyTorch, so it may be missing.
_stream_address: "Optional[Callable[[int], int]]" = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def _current_stream(device: torch.device) -> int:
    if _stream_address is not None:
        return _stream_address(device.index)
    return torch.cuda.current_stream(device).cuda_stream


class CallMemory:
    """The ctypes structure of one library call, and the tensors that it points to, which are kept alive. All tensors
    are on one device. The structure begins with struct_size and device, and has the members num_threads, stream,
    workspace and workspace_bytes."""

    def __init__(self, structure: "type[ctypes.Structure]", device: torch.device):
        kind = device.type
        if kind not in ("cpu", "cuda"):
            raise NotImplementedError(f"tensors are on {device}; maxsim_torch computes on cpu and cuda")
        self.on_cuda = kind == "cuda"
        if self.on_cuda and torch.version.hip is not None:
            raise NotImplementedError(f"tensors are on {device} of ROCm {torch.version.hip}; must be of CUDA")
        self.kept: list[Any] = []
        self.device = device
        call: Any = structure(ctypes.sizeof(structure), library.CUDA if self.on_cuda else library.CPU)
        if self.on_cuda:
            call.stream = _current_stream(device)
        else:
            call.num_threads = torch.get_num_threads()
        self.call = call

    def address(self, tensor: Optional[Tensor]) -> Optional[int]:
        """Returns the address of a tensor's elements, which are made contiguous. None if there is no tensor."""
        if tensor is None:
            return None
        if tensor.device != self.device:
            raise ValueError(f"a tensor of the call is on {tensor.device}, but others are on {self.device}")
        tensor = tensor.contiguous()
        self.kept.append(tensor)
        return tensor.data_ptr() or None

    def address_of(self, structure: ctypes.Structure) -> int:
        """Returns the address of another structure of the call."""
        self.kept.append(structure)
        return ctypes.addressof(structure)

    def take(self, inputs: Any) -> None:
        """Writes the fields of a NamedTuple into the structure's members of the same names: tensors as addresses,
        numbers unchanged."""
        for name, value in zip(inputs._fields, inputs):
            is_tensor = value is None or isinstance(value, Tensor)
            setattr(self.call, name, self.address(value) if is_tensor else value)

    def forward(self, passes: library.Passes, results: "Tuple[Tensor, Tensor]", *codes: Any) -> None:
        """Runs the forward pass, which writes values and matches into `results`. Matches may be empty."""
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
        """Runs the backward pass. `given` are the first members of the structure of gradients, `results` its other
        members, which it writes. Results that are empty or None are not computed."""
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
        """Calls function(call, *codes, *arguments). For CUDA tensors, first makes their device the current one, and
        allocates the workspace: `sized` says how many bytes the pass `which` (library.FORWARD or BACKWARD) needs. If
        `sized` is None, the call gets no workspace."""
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
    """Returns the type of the lengths, which must be the same for all of them."""
    for tensor in lengths:
        if tensor is not None:
            return INDEX_TYPES[tensor.dtype]
    return library.INT64

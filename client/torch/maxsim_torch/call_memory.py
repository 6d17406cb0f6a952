"""Tensors of a call of the library: checked, kept until the call has returned, and given a workspace."""

import contextlib
import ctypes
from typing import Any, Callable, Iterator, Optional

import torch
from torch import Tensor

from . import library

TYPES = {torch.float32: library.F32, torch.float16: library.F16, torch.bfloat16: library.BF16}
INDEX_TYPES = {torch.int64: library.INT64, torch.int32: library.INT32}


class CallMemory:
    """A ctypes structure with the members struct_size, device, num_threads, stream, workspace and workspace_bytes, over
    tensors of one device, which it keeps."""

    def __init__(self, structure: "type[ctypes.Structure]", device: torch.device):
        if device.type not in ("cpu", "cuda"):
            raise NotImplementedError(f"tensors are on {device}; maxsim_torch computes on cpu and cuda")
        if device.type == "cuda" and torch.version.hip is not None:
            raise NotImplementedError(f"tensors are on {device} of ROCm {torch.version.hip}, and not of CUDA")
        self.kept: list[Tensor] = []
        self.device = device
        self.call: Any = structure(struct_size=ctypes.sizeof(structure))
        self.call.device = library.CUDA if device.type == "cuda" else library.CPU
        self.call.num_threads = torch.get_num_threads()
        if device.type == "cuda":
            self.call.stream = torch.cuda.current_stream(device).cuda_stream

    def address(self, tensor: Optional[Tensor]) -> Optional[int]:
        """The address of a tensor's elements, made contiguous; None for none."""
        if tensor is None:
            return None
        if tensor.device != self.device:
            raise ValueError(f"a tensor of the call is on {tensor.device}, and others are on {self.device}")
        tensor = tensor.contiguous()
        self.kept.append(tensor)
        return tensor.data_ptr() or None

    @contextlib.contextmanager
    def with_workspace(self, bytes_of: "Callable[[Any], int]") -> Iterator[None]:
        """Makes the tensors' device the current one and gives the call the workspace that bytes_of(call) says."""
        if self.device.type != "cuda":
            yield
            return
        with torch.cuda.device(self.device):
            size = bytes_of(self.call)
            workspace = torch.empty(size, dtype=torch.uint8, device=self.device)
            self.kept.append(workspace)
            self.call.workspace = workspace.data_ptr() or None
            self.call.workspace_bytes = size
            yield

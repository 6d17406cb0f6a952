"""Makes PyTorch use the CPU for the device "cuda", so that tests for a GPU run without one. Import this module before
all others.

Do not measure in this mode: times and memory are those of the CPU, and CUDA streams and events do nothing.
"""

import types

import torch
from torch.overrides import TorchFunctionMode


def _is_cuda(device):
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return isinstance(device, str) and device.partition(":")[0] == "cuda"


class _OnCpu(TorchFunctionMode):
    """Replaces "cuda" by the CPU in the arguments of every PyTorch function."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.is_cuda.__get__:
            return True
        if function is torch.Tensor.cuda:
            return args[0]
        args = ["cpu" if _is_cuda(arg) else arg for arg in args]
        kwargs = {name: "cpu" if _is_cuda(value) else value for name, value in (kwargs or {}).items()}
        return function(*args, **kwargs)


class _Generator(torch.Generator):
    def __new__(cls, device="cpu"):
        return super().__new__(cls, "cpu")


def _nothing(*_args, **_kwargs):
    return None


def _zero(*_args, **_kwargs):
    return 0


_properties = types.SimpleNamespace(total_memory=2**36, multi_processor_count=1, name="CPU", major=8, minor=0)
for _name, _value in {
    "is_available": lambda: True,
    "device_count": lambda: 1,
    "current_device": _zero,
    "synchronize": _nothing,
    "empty_cache": _nothing,
    "manual_seed_all": _nothing,
    "reset_peak_memory_stats": _nothing,
    "max_memory_allocated": _zero,
    "memory_allocated": _zero,
    "get_device_name": lambda *_: "CPU",
    "get_device_capability": lambda *_: (8, 0),
    "get_device_properties": lambda *_: _properties,
}.items():
    setattr(torch.cuda, _name, _value)
torch.Generator = _Generator
_OnCpu().__enter__()

"""Copies blocks of tensors from CPU memory to a GPU, while the GPU computes on the previous block."""

from typing import Dict, Iterator, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

# For each tensor, the rows that a block has: the first, and the one after the last.
Ranges = Sequence[Tuple[int, int]]


class _Slot:
    """Memory for one block: on the GPU, and pinned on the host for those tensors that are not pinned."""

    def __init__(self, tensors: Sequence[Tensor], most_rows: Sequence[int], device: torch.device):
        self.on_device = [
            torch.empty((rows, *tensor.shape[1:]), dtype=tensor.dtype, device=device)
            for tensor, rows in zip(tensors, most_rows)
        ]
        self.staged: List[Optional[Tensor]] = [
            None
            if tensor.is_pinned()
            else torch.empty((rows, *tensor.shape[1:]), dtype=tensor.dtype, device="cpu", pin_memory=True)
            for tensor, rows in zip(tensors, most_rows)
        ]
        self.copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self.used = torch.cuda.Event()  # type: ignore[no-untyped-call]


class HostBlocks:
    """Yields blocks of rows of `tensors` on `device`, in order.

    `ranges` has, for each block, the rows of each tensor. Two blocks are on the device at a time: while the device
    computes on one, the next one is copied from pinned memory on a separate stream. Rows of tensors that are not
    pinned, such as those of a mapped file, are first copied to pinned memory by the calling thread. A block's
    tensors are valid until the next block is requested. Use them on the stream that was current at the call. Not
    thread-safe."""

    def __init__(self, tensors: Sequence[Tensor], ranges: Sequence[Ranges], device: torch.device):
        self.tensors, self.ranges, self.device = tensors, ranges, device

    def __iter__(self) -> Iterator[List[Tensor]]:
        if not self.ranges:
            return
        most_rows = [max(block[idx][1] - block[idx][0] for block in self.ranges) for idx in range(len(self.tensors))]
        with torch.cuda.device(self.device):
            current = torch.cuda.current_stream()
            copies = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            slots: Dict[int, _Slot] = {}
            for idx in range(min(2, len(self.ranges))):
                slots[idx] = _Slot(self.tensors, most_rows, self.device)
            copies.wait_stream(current)  # the slots' memory may have belonged to tensors that the device still reads
            try:
                blocks = self._copy(0, slots, copies)
                for idx in range(len(self.ranges)):
                    current.wait_event(slots[idx % 2].copied)
                    yield blocks
                    slots[idx % 2].used.record(current)
                    if idx + 1 < len(self.ranges):
                        blocks = self._copy(idx + 1, slots, copies)
            finally:
                current.wait_stream(copies)  # the caller may stop here and free memory to which a copy still writes

    def _copy(self, block: int, slots: Dict[int, _Slot], copies: torch.cuda.Stream) -> List[Tensor]:
        slot = slots[block % 2]
        again = block >= len(slots)
        if again:
            slot.copied.synchronize()  # the host writes to memory that the copy before the last one may still read
        results = []
        for tensor, staged, target, (first, end) in zip(self.tensors, slot.staged, slot.on_device, self.ranges[block]):
            source = tensor[first:end]
            if staged is not None:
                source = staged[: end - first].copy_(source)
            results.append((target[: end - first], source))
        with torch.cuda.stream(copies):
            if again:
                copies.wait_event(slot.used)
            for target, source in results:
                target.copy_(source, non_blocking=True)
            slot.copied.record(copies)
        return [target for target, _ in results]

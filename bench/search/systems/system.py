"""The interface of a system in the benchmark: it makes an index of documents, says how large it is, and searches it."""

import abc
import dataclasses
import pathlib
from typing import Any, ClassVar, Dict, List, Sequence

import numpy as np

from documents import Documents

Options = Dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Answer:
    """Documents by their numbers, best first. Fewer than k where the system found no more."""

    ids: List[int]
    proven: bool | None = None  # whether the system proved that these are the best; None if it gives no proofs
    refined: int | None = None  # how many documents were scored exactly, of those that a scan of codes chose


@dataclasses.dataclass(frozen=True)
class Setup:
    """Where a system works, and on what."""

    folder: pathlib.Path  # empty, for the index
    device: str  # "cpu" or "cuda"
    threads: int
    programs: pathlib.Path  # of maxsimd


class System(abc.ABC):
    """One system with one index. All calls come from one thread, in the order build, open, searches, close.

    An index that `build` made can be opened by another process later."""

    name: ClassVar[str]  # as the report names it
    packages: ClassVar[Sequence[str]]  # of PyPI, whose versions the report states
    builds: ClassVar[Sequence[Options]]  # settings of the index; each is measured
    uses_gpu: ClassVar[bool] = False

    def __init__(self, setup: Setup, build: Options) -> None:
        self.setup, self.options = setup, build

    @classmethod
    def searches(cls, build: Options, k: int) -> List[Options]:
        """Settings of a search for the best k in an index of these settings, the system's default one first."""
        raise NotImplementedError

    @abc.abstractmethod
    def build(self, documents: Documents) -> None:
        """Writes the index into the folder."""

    @abc.abstractmethod
    def open(self) -> None:
        """Makes the index ready for searches."""

    @abc.abstractmethod
    def search(self, question: np.ndarray, k: int, options: Options) -> Answer:
        """Finds the best k documents of one question, float16 [tokens, dim]."""

    def search_many(self, questions: Sequence[np.ndarray], k: int, options: Options) -> List[Answer]:
        """The same for several questions at once, in the way in which the system has the most throughput."""
        return [self.search(question, k, options) for question in questions]

    def num_bytes(self) -> Dict[str, int]:
        """Under "index" the bytes of the files that the system keeps, under "read" the bytes of these that a search reads
        before it has candidates, where the system tells the two apart."""
        return {"index": folder_bytes(self.setup.folder)}

    def close(self) -> None:
        """Lets go of memory and processes."""


def folder_bytes(folder: pathlib.Path) -> int:
    """Bytes of a folder's files, less what was reserved in them and never written."""
    sizes = (path.stat() for path in folder.rglob("*") if path.is_file())
    return sum(min(size.st_size, size.st_blocks * 512) for size in sizes)

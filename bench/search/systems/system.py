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
    """The numbers of the found documents, best first. Fewer than k if the system found no more."""

    ids: List[int]
    proven: bool | None = None  # whether the system proved that these are the best k; None if it gives no proofs
    refined: int | None = None  # number of documents that were scored exactly after a scan of codes chose them


@dataclasses.dataclass(frozen=True)
class Setup:
    """Where a system works, and on what."""

    folder: pathlib.Path  # empty, for the index
    device: str  # "cpu" or "cuda"
    threads: int
    programs: pathlib.Path  # of maxsimd


class System(abc.ABC):
    """One system with one index. All calls come from one thread, in the order build, open, searches, close.

    Another process can later open an index that `build` made."""

    name: ClassVar[str]  # as the report names it
    packages: ClassVar[Sequence[str]]  # of PyPI, whose versions the report states
    builds: ClassVar[Sequence[Options]]  # settings of the index; each is measured
    uses_gpu: ClassVar[bool] = False

    def __init__(self, setup: Setup, build: Options) -> None:
        self.setup, self.options = setup, build

    @classmethod
    def searches(cls, build: Options, k: int) -> List[Options]:
        """Returns the settings of searches for the best k in an index with the settings `build`, the system's default
        first."""
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
        """Finds the best k documents of several questions at once, in the way that gives the system the highest
        throughput."""
        return [self.search(question, k, options) for question in questions]

    def num_bytes(self) -> Dict[str, int]:
        """Returns the sizes of the system's files. "index" counts all of them. "read" counts those that a search
        reads before it has candidates, and is there only if the system tells them apart."""
        return {"index": folder_bytes(self.setup.folder)}

    def close(self) -> None:
        """Lets go of memory and processes."""


def folder_bytes(folder: pathlib.Path) -> int:
    """Returns the bytes of a folder's files, without space that was reserved in them but never written."""
    sizes = (path.stat() for path in folder.rglob("*") if path.is_file())
    return sum(min(size.st_size, size.st_blocks * 512) for size in sizes)

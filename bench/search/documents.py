"""The files that the stages of this benchmark exchange: documents and questions as token vectors."""

import dataclasses
import pathlib
from typing import List

import numpy as np


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Returns where each document begins, and where the last one ends: int64 [documents + 1]."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


@dataclasses.dataclass(frozen=True)
class Documents:
    """Documents, one after the other. The arrays may be mapped files."""

    vectors: np.ndarray  # float16 [tokens, dim], each row of length 1
    lengths: np.ndarray  # int64 [documents], each at least 1
    pieces: np.ndarray  # uint16 [tokens], the number of the word piece that each vector stands for
    folder: pathlib.Path | None = None  # the folder with the same in tokens.npy and lengths.npy, if there is one

    def __post_init__(self) -> None:
        if self.vectors.dtype != np.float16 or self.vectors.ndim != 2:
            raise ValueError(f"vectors: must be float16 [tokens, dim], are {self.vectors.dtype} {self.vectors.shape}")
        if len(self.lengths) == 0 or int(self.lengths.min()) < 1:
            raise ValueError("lengths: there must be documents, and each must have at least 1 token")
        if not int(self.lengths.sum()) == len(self.vectors) == len(self.pieces):
            raise ValueError(
                f"{int(self.lengths.sum())} tokens by lengths, but {len(self.vectors)} vectors and "
                f"{len(self.pieces)} pieces"
            )

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def dim(self) -> int:
        return int(self.vectors.shape[1])

    @property
    def offsets(self) -> np.ndarray:
        return offsets_of(self.lengths)

    def matrices(self, begin: int = 0, end: int | None = None) -> List[np.ndarray]:
        """Returns a view [tokens, dim] for each document from `begin` to `end` (None: to the last one)."""
        offsets = self.offsets[begin : None if end is None else end + 1]
        return [self.vectors[first:last] for first, last in zip(offsets[:-1], offsets[1:])]


def save_documents(folder: pathlib.Path, documents: Documents) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "tokens.npy", documents.vectors)
    np.save(folder / "lengths.npy", documents.lengths)
    np.save(folder / "pieces.npy", documents.pieces)


def load_documents(folder: pathlib.Path) -> Documents:
    """Maps the files of a folder into memory."""
    tokens, pieces = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("tokens", "pieces"))
    return Documents(tokens, np.load(folder / "lengths.npy"), pieces, folder)


def save_questions(folder: pathlib.Path, questions: List[np.ndarray]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "query_tokens.npy", np.concatenate(questions))
    np.save(folder / "query_lengths.npy", np.array([len(question) for question in questions], np.int64))


def load_questions(folder: pathlib.Path) -> List[np.ndarray]:
    """Returns a float16 matrix [tokens, dim] for each question. Question i was made from document i."""
    vectors = np.load(folder / "query_tokens.npy")
    return np.split(vectors, np.cumsum(np.load(folder / "query_lengths.npy"))[:-1])

"""Encodes the image of a page as 1,030 vectors. It is a stand-in for a vision-language model.

A model such as ColPali makes a vector for each of 32 x 32 patches of the image, and six more for the tokens of its
prompt. The output of this file's encoder has the same shape, and its only input is the image too. But it can only read
text. Tesseract finds the words and their boxes, and MiniLM, which also encoded the questions, makes a vector of each
word piece. The vector of a patch is the normalized sum of the vectors of the pieces that cover it. So a question finds
a figure only by its labels. A blank patch has a vector of zeros, whose similarity with every token is 0.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import subprocess
import unicodedata
from typing import Any, Dict, List, Tuple

import numpy as np
from maxsim_encoder.encoder import DOCUMENT
from maxsim_encoder.loaders.minilm import MiniLm, find_projection, load_projection
from PIL import Image

ROWS, COLUMNS = 32, 32  # patches of a page
NUM_SPECIAL = 6  # vectors after those of the patches
NUM_VECTORS = ROWS * COLUMNS + NUM_SPECIAL
DIM = 128
GRID = {"rows": ROWS, "columns": COLUMNS, "first": 0}  # as a payload names it (docs/use/pages.md)

_MAX_WORDS = 120  # The model reads 256 word pieces at a time.
_MIN_COVERAGE = 0.05  # A word piece that covers a smaller share of a patch does not count there: it only touches its edge.

Matrix = Any  # numpy.ndarray, float32


class PageError(Exception):
    """An error that the user can correct. Its text is one line."""


@dataclasses.dataclass(frozen=True)
class Word:
    """A word on a page, and its box. Sides are shares of the page's width or height, 0 to 1, from the top left."""

    text: str
    left: float
    top: float
    right: float
    bottom: float


def read_words(page: Image.Image) -> List[Word]:
    """Returns the words that Tesseract finds, in reading order. PageError: Tesseract is missing or fails."""
    file = io.BytesIO()
    page.save(file, "PNG")
    command = ["tesseract", "stdin", "stdout", "--dpi", "150", "tsv"]
    try:
        # Its threads gain little on a page. Instead, build.py reads several pages at a time.
        environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}
        done = subprocess.run(command, input=file.getvalue(), capture_output=True, check=True, env=environment)
    except FileNotFoundError:
        raise PageError("the program tesseract is missing: apt-get install tesseract-ocr") from None
    except subprocess.CalledProcessError as error:
        raise PageError(f"tesseract: {error.stderr.decode(errors='replace').strip()[-300:]}") from None
    words = []
    for row in csv.DictReader(io.StringIO(done.stdout.decode()), delimiter="\t", quoting=csv.QUOTE_NONE):
        if row["level"] != "5" or not row["text"].strip():
            continue
        left, top = int(row["left"]) / page.width, int(row["top"]) / page.height
        right, bottom = left + int(row["width"]) / page.width, top + int(row["height"]) / page.height
        words.append(Word(row["text"], left, top, right, bottom))
    return words


class PageEncoder:
    """Encodes words with MiniLM and the projection of demo/. Only one thread at a time may use it."""

    def __init__(self) -> None:
        self._model = MiniLm(load_projection(find_projection()))

    @property
    def identity(self) -> Dict[str, Any]:
        """Describes the model, in the form that a collection stores. Questions need the same model."""
        return self._model.info.as_json()

    def encode(self, words: List[Word]) -> Matrix:
        """Returns the vectors of a page, float32 [NUM_VECTORS, DIM]: first those of the patches, row by row. Each has
        length 1, except that a patch without words has zeros."""
        parts = [words[begin : begin + _MAX_WORDS] for begin in range(0, max(1, len(words)), _MAX_WORDS)]
        encoded = self._model.encode([_text(part) for part in parts], DOCUMENT)
        sums = np.zeros((ROWS, COLUMNS, DIM), np.float32)
        for part, one in zip(parts, encoded):
            assert one.pieces is not None
            for vector, place in zip(one.vectors, _places(one.pieces, part)):
                if place is not None:
                    sums += _coverage(place)[:, :, None] * vector
        patches = sums.reshape(-1, DIM)
        patches /= np.maximum(np.linalg.norm(patches, axis=1, keepdims=True), 1e-12)
        # The first vector is that of [CLS], which stands for the text as a whole.
        return np.concatenate([patches, np.repeat(encoded[0].vectors[:1], NUM_SPECIAL, axis=0)])


def _text(words: List[Word]) -> str:
    return " ".join(word.text for word in words)


def _places(pieces: List[str], words: List[Word]) -> List[Any]:
    """Returns the box (left, top, right, bottom) of each word piece: the part of its word's box that its letters take.
    Returns None for a piece that is not in the text, such as [CLS]."""
    letters = [(letter, word, idx) for word in words for idx, one in enumerate(f"{word.text} ") for letter in _plain(one)]
    text = "".join(letter for letter, _, _ in letters)
    places: List[Any] = []
    position = 0
    for piece in pieces:
        core = piece[2:] if piece.startswith("##") else piece
        found = text.find(core, position)
        if found < 0:
            places.append(None)
            continue
        position = found + len(core)
        _, word, idx = letters[found]
        letter_width = (word.right - word.left) / len(word.text)
        left = word.left + idx * letter_width
        places.append((left, word.top, min(word.right, left + len(core) * letter_width), word.bottom))
    return places


def _plain(letter: str) -> str:
    """Returns a letter as MiniLM reads it: in lower case and without accents."""
    return "".join(one for one in unicodedata.normalize("NFD", letter.lower()) if unicodedata.category(one) != "Mn")


def _coverage(box: Tuple[float, float, float, float]) -> Matrix:
    """Returns the share of each patch that a box covers, float32 [ROWS, COLUMNS]: 0, or _MIN_COVERAGE to 1."""
    left, top, right, bottom = box
    covered = np.outer(_overlap(top, bottom, ROWS), _overlap(left, right, COLUMNS))
    return np.where(covered < _MIN_COVERAGE, 0, covered)


def _overlap(begin: float, end: float, parts: int) -> Matrix:
    """Divides 0 to 1 into equal parts. Returns the share of each that lies between `begin` and `end`, float32 [parts]."""
    edges = np.arange(parts + 1) / parts
    return np.maximum(0, np.minimum(end, edges[1:]) - np.maximum(begin, edges[:-1])).astype(np.float32) * parts

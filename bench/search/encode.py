#!/usr/bin/env python3
"""Encodes the corpus into token vectors of two kinds.

    bench/search/encode.py --data data --kinds minilm trained

Reads corpus.npz and encoder.npz, which corpus.py wrote, and needs NumPy and PyTorch. It writes a folder for each kind,
with the vectors of the documents (tokens.npy, lengths.npy, pieces.npy) and of the questions (query_tokens.npy,
query_lengths.npy), in float16.

minilm    MiniLM's token states, less their mean, on the `--dim` axes along which they vary most, normalised
trained   the states, normalised, times the weight of a head that examples/train trained (head.npy, see train_head.py),
          normalised

Vectors of [SEP] and of punctuation are left out, as maxsim_encoder leaves them out.
"""

import argparse
import pathlib
import time
from typing import Callable, Dict, Iterator, List, Tuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from bert import Bert
from documents import offsets_of, save_questions

KINDS = ("minilm", "trained")
TOKENS_PER_BATCH = {"cuda": 131_072, "cpu": 4096}  # padding included
SAMPLED_DOCUMENTS = 4000  # states of at most this many documents give the mean and axes of `minilm`

Head = Callable[[Tensor], Tensor]  # normalised states [tokens, hidden] to vectors [tokens, dim]


class Texts:
    """The token numbers of texts, one text after the other, and which of their states are kept."""

    def __init__(self, ids: np.ndarray, lengths: np.ndarray, dropped: np.ndarray) -> None:
        self.ids, self.lengths, self.offsets = ids, lengths.astype(np.int64), offsets_of(lengths)
        self.is_kept = ~np.isin(ids, dropped)
        self.kept_before = offsets_of(self.is_kept)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def kept_offsets(self) -> np.ndarray:
        return self.kept_before[self.offsets]

    @property
    def kept_ids(self) -> np.ndarray:
        return self.ids[self.is_kept]


def states_of(model: Bert, texts: Texts, which: np.ndarray) -> Iterator[Tuple[np.ndarray, Tensor]]:
    """Yields the normalised states of batches of texts, with the index of each state among all kept states."""
    order = which[np.argsort(texts.lengths[which], kind="stable")]
    limit, begin = TOKENS_PER_BATCH[model.device.split(":")[0]], 0
    while begin < len(order):
        end = begin + 1
        while end < len(order) and (end + 1 - begin) * texts.lengths[order[end]] <= limit:
            end += 1
        batch, begin = order[begin:end], end
        lengths = texts.lengths[batch]
        position = np.arange(int(lengths.max()))
        is_text = position < lengths[:, None]
        rows = np.where(is_text, texts.offsets[batch][:, None] + position, 0)
        ids = torch.from_numpy(np.where(is_text, texts.ids[rows], 0).astype(np.int64)).to(model.device)
        states = model(ids, torch.from_numpy(lengths).to(model.device))
        is_kept = is_text & texts.is_kept[rows]
        kept = states[torch.from_numpy(is_kept).to(model.device)].float()
        yield texts.kept_before[rows[is_kept]], functional.normalize(kept, dim=1)


def pca_head(model: Bert, documents: Texts, dim: int) -> Head:
    """Returns a head that projects states, minus their mean, on the axes along which a sample of states varies most."""
    count = min(SAMPLED_DOCUMENTS, max(500, len(documents) // 4))
    chosen = np.random.default_rng(1).permutation(len(documents))[:count]
    sample = torch.cat([states for _, states in states_of(model, documents, np.sort(chosen))])
    mean = sample.mean(0)
    # Eigenvectors of the covariance, the largest eigenvalues first, in FP64.
    centred = (sample - mean).double().cpu()
    axes = torch.linalg.eigh(centred.T @ centred).eigenvectors.flip(1)[:, :dim].float().to(sample.device)
    return lambda states: functional.normalize((states - mean) @ axes, dim=1)


def trained_head(path: pathlib.Path, device: str) -> Head:
    weight = torch.from_numpy(np.load(path)).float().to(device)
    return lambda states: functional.normalize(states @ weight.T, dim=1)


def encode(model: Bert, texts: Texts, heads: Dict[str, Head], outputs: Dict[str, np.ndarray]) -> None:
    """Fills each output [kept tokens, dim] with the vectors that its head makes."""
    done, begin = 0, time.monotonic()
    for batch, (rows, states) in enumerate(states_of(model, texts, np.arange(len(texts)))):
        for kind, head in heads.items():
            outputs[kind][rows] = head(states).half().cpu().numpy()
        done += len(rows)
        if batch % 200 == 0:
            print(f"{done:,} of {int(texts.is_kept.sum()):,} vectors, {time.monotonic() - begin:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder of corpus.npz and encoder.npz")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="(default: both)")
    parser.add_argument("--head", type=pathlib.Path, help="weight of the trained head (default: head.npy in --data)")
    parser.add_argument("--dim", type=int, default=128, help="of the kind minilm (default: %(default)s)")
    parser.add_argument(
        "--device", default="cuda" if torch.cuda.is_available() else "cpu", help="(default: %(default)s)"
    )
    parser.add_argument("--out", type=pathlib.Path, help="folder for the kinds' folders (default: --data)")
    options = parser.parse_args()

    torch.backends.cuda.matmul.allow_tf32 = False
    with np.load(options.data / "encoder.npz") as file:
        dropped = file["dropped"]
        model = Bert({name: file[name] for name in file.files if name != "dropped"}, options.device)
    with np.load(options.data / "corpus.npz") as file:
        documents = Texts(file["ids"], file["lengths"], dropped)
        questions = Texts(file["question_ids"], file["question_lengths"], dropped)
    heads: Dict[str, Head] = {}
    dims: Dict[str, int] = {}
    if "minilm" in options.kinds:
        heads["minilm"], dims["minilm"] = pca_head(model, documents, options.dim), options.dim
    if "trained" in options.kinds:
        path = options.head or options.data / "head.npy"
        heads["trained"], dims["trained"] = trained_head(path, options.device), len(np.load(path))
    out = options.out or options.data
    outputs: Dict[str, np.ndarray] = {}
    asked: Dict[str, np.ndarray] = {}
    for kind in heads:
        (out / kind).mkdir(parents=True, exist_ok=True)
        np.save(out / kind / "lengths.npy", np.diff(documents.kept_offsets))
        np.save(out / kind / "pieces.npy", documents.kept_ids)
        shape = (len(documents.kept_ids), dims[kind])
        outputs[kind] = np.lib.format.open_memmap(out / kind / "tokens.npy", "w+", np.float16, shape)
        asked[kind] = np.empty((len(questions.kept_ids), dims[kind]), np.float16)
    encode(model, documents, heads, outputs)
    encode(model, questions, heads, asked)
    for kind in heads:
        outputs[kind].flush()
        matrices: List[np.ndarray] = np.split(asked[kind], questions.kept_offsets[1:-1])
        save_questions(out / kind, matrices)
        print(f"{kind}: {len(documents):,} documents, {len(outputs[kind]):,} vectors of {dims[kind]} in {out / kind}")


if __name__ == "__main__":
    main()

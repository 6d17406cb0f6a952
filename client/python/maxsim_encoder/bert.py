"""The forward pass of a BERT encoder in NumPy."""

from __future__ import annotations

import math
from typing import Any, List, Mapping, NamedTuple

import numpy as np
import numpy.typing as npt

from maxsim_encoder.encoder import Matrix

Tensor = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]


class _Linear(NamedTuple):
    weight: Tensor  # [in, out]
    bias: Tensor  # [out]

    def __call__(self, x: Tensor) -> Tensor:
        """[n, in] to [n, out]."""
        y: Tensor = x @ self.weight
        y += self.bias
        return y


class _Norm(NamedTuple):
    scale: Tensor  # [hidden]
    shift: Tensor  # [hidden]
    epsilon: float

    def __call__(self, x: Tensor) -> Tensor:
        """Returns the rows with mean 0 and variance 1, scaled and shifted."""
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = np.mean(np.square(centred), axis=-1, keepdims=True)
        result: Tensor = centred / np.sqrt(variance + np.float32(self.epsilon)) * self.scale + self.shift
        return result


class _Layer(NamedTuple):
    query: _Linear
    key: _Linear
    value: _Linear
    attention: _Linear
    attention_norm: _Norm
    wide: _Linear
    narrow: _Linear
    norm: _Norm


def gelu(x: Tensor) -> Tensor:
    """Returns x * Phi(x) with the exact normal distribution. Its erf is formula 7.1.26 of Abramowitz and Stegun,
    Handbook of Mathematical Functions, whose error is at most 1.5e-7."""
    z = np.abs(x) * np.float32(math.sqrt(0.5))
    t = np.float32(1) / (np.float32(1) + np.float32(0.3275911) * z)
    polynomial = np.full_like(t, 1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        polynomial *= t
        polynomial += np.float32(coefficient)
    erf = np.copysign(np.float32(1) - polynomial * t * np.exp(-z * z), x)
    result: Tensor = np.float32(0.5) * x * (np.float32(1) + erf)
    return result


class Bert:
    """A BERT encoder with absolute positions and exact GELU.

    `weights` has the names of Hugging Face's BertModel, `config` is its config.json. ValueError: the configuration
    describes another model. KeyError: a weight is missing."""

    def __init__(self, weights: Mapping[str, npt.NDArray[Any]], config: Mapping[str, Any]) -> None:
        for name, wanted in (("hidden_act", "gelu"), ("position_embedding_type", "absolute"), ("model_type", "bert")):
            if config.get(name, wanted) != wanted:
                raise ValueError(f"config.json: {name} is {config[name]!r}, only {wanted!r} is known")
        self._weights = weights
        self._epsilon = float(config["layer_norm_eps"])
        self.num_heads = int(config["num_attention_heads"])
        self.hidden = int(config["hidden_size"])
        self.max_tokens = int(config["max_position_embeddings"])
        self.words = self._tensor("embeddings.word_embeddings.weight")
        # A text is never a pair, so its token type is always the first.
        types = self._tensor("embeddings.token_type_embeddings.weight")[0]
        self.positions = self._tensor("embeddings.position_embeddings.weight") + types
        self.embedding_norm = self._norm("embeddings.LayerNorm")
        self.layers = [self._layer(f"encoder.layer.{i}") for i in range(int(config["num_hidden_layers"]))]

    def _tensor(self, name: str) -> Tensor:
        return np.ascontiguousarray(self._weights[name], dtype=np.float32)

    def _linear(self, name: str) -> _Linear:
        return _Linear(np.ascontiguousarray(self._tensor(name + ".weight").T), self._tensor(name + ".bias"))

    def _norm(self, name: str) -> _Norm:
        return _Norm(self._tensor(name + ".weight"), self._tensor(name + ".bias"), self._epsilon)

    def _layer(self, name: str) -> _Layer:
        return _Layer(
            query=self._linear(name + ".attention.self.query"),
            key=self._linear(name + ".attention.self.key"),
            value=self._linear(name + ".attention.self.value"),
            attention=self._linear(name + ".attention.output.dense"),
            attention_norm=self._norm(name + ".attention.output.LayerNorm"),
            wide=self._linear(name + ".intermediate.dense"),
            narrow=self._linear(name + ".output.dense"),
            norm=self._norm(name + ".output.LayerNorm"),
        )

    def __call__(self, texts: List[List[int]]) -> List[Matrix]:
        """Returns the last hidden states [tokens, hidden] of each text. A text is its token ids, 1 to `max_tokens` of
        them.

        The tokens of all texts follow one another, so that the dense layers see no padding. Only attention, a small
        share of the work, handles one text at a time. Except for the rounding of matrix products, a text's states do
        not depend on the other texts."""
        lengths = [len(ids) for ids in texts]
        starts = np.cumsum([0, *lengths]).tolist()
        ids: Ids = np.concatenate([np.asarray(text, dtype=np.int64) for text in texts])
        places: Ids = np.concatenate([np.arange(length) for length in lengths])
        x = self.embedding_norm(self.words[ids] + self.positions[places])
        for layer in self.layers:
            x = layer.attention_norm(x + layer.attention(self._attend(layer, x, starts)))
            x = layer.norm(x + layer.narrow(gelu(layer.wide(x))))
        return [x[start:end] for start, end in zip(starts, starts[1:])]

    def _attend(self, layer: _Layer, x: Tensor, starts: List[int]) -> Tensor:
        """Returns the attention output of each token [all tokens, hidden]. A token attends only to the tokens of its
        own text."""
        width = self.hidden // self.num_heads
        scale = np.float32(1 / math.sqrt(width))
        shape = (len(x), self.num_heads, width)
        query, key, value = layer.query(x).reshape(shape), layer.key(x).reshape(shape), layer.value(x).reshape(shape)
        result = np.empty(shape, dtype=np.float32)
        for start, end in zip(starts, starts[1:]):
            q, k, v = (matrix[start:end].transpose(1, 0, 2) for matrix in (query, key, value))
            scores = (q @ k.transpose(0, 2, 1)) * scale  # [heads, tokens, tokens]
            scores -= scores.max(axis=-1, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(axis=-1, keepdims=True)
            result[start:end] = (scores @ v).transpose(1, 0, 2)
        return result.reshape(len(x), self.hidden)

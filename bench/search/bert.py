"""MiniLM's forward pass in PyTorch, on a GPU or a CPU. maxsim_encoder.bert is the same in NumPy."""

from typing import Dict

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional


class Bert:
    """The encoder of BERT: token numbers in, states of the last layer out."""

    def __init__(self, weights: Dict[str, np.ndarray], device: str) -> None:
        """Computes in float16 on a GPU and in float32 elsewhere. The numbers of layers and of heads follow from the
        weights: MiniLM's heads have 32 columns."""
        self.dtype = torch.float16 if device.startswith("cuda") else torch.float32
        self.device = device
        self._weights = {name: torch.from_numpy(value).to(device, self.dtype) for name, value in weights.items()}
        self.hidden = weights["embeddings.word_embeddings.weight"].shape[1]
        self._heads = self.hidden // 32
        self._layers = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer."))

    @torch.inference_mode()
    def __call__(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Returns the states [texts, tokens, hidden] of padded token numbers [texts, tokens]. States of padding are
        arbitrary."""
        get = self._weights.__getitem__
        states = get("embeddings.word_embeddings.weight")[ids]
        states = states + get("embeddings.position_embeddings.weight")[: ids.shape[1]]
        states = self._norm(states + get("embeddings.token_type_embeddings.weight")[0], "embeddings.LayerNorm")
        mask = (torch.arange(ids.shape[1], device=self.device) < lengths[:, None])[:, None, None, :]
        for layer in range(self._layers):
            states = self._layer(states, mask, f"encoder.layer.{layer}.")
        return states

    def _layer(self, states: Tensor, mask: Tensor, prefix: str) -> Tensor:
        texts, tokens, hidden = states.shape
        query, key, value = (
            self._linear(states, f"{prefix}attention.self.{part}")
            .view(texts, tokens, self._heads, hidden // self._heads)
            .transpose(1, 2)
            for part in ("query", "key", "value")
        )
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        seen = self._linear(seen.transpose(1, 2).reshape(states.shape), f"{prefix}attention.output.dense")
        states = self._norm(states + seen, f"{prefix}attention.output.LayerNorm")
        wide = functional.gelu(self._linear(states, f"{prefix}intermediate.dense"))
        return self._norm(states + self._linear(wide, f"{prefix}output.dense"), f"{prefix}output.LayerNorm")

    def _linear(self, states: Tensor, name: str) -> Tensor:
        return functional.linear(states, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _norm(self, states: Tensor, name: str) -> Tensor:
        scale, shift = self._weights[f"{name}.weight"].float(), self._weights[f"{name}.bias"].float()
        return functional.layer_norm(states.float(), (self.hidden,), scale, shift, 1e-12).to(self.dtype)

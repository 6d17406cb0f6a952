"""Models of sentence-transformers (6.0 and later): MultiVectorEncoder, which loads PyLate's and Stanford's checkpoints
too."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from maxsim_encoder.encoder import QUERY, Encoded, EncoderError, EncoderInfo, cut_texts, length_limit
from maxsim_encoder.loaders.torch_models import (
    as_matrix,
    describe,
    first_line,
    import_or_explain,
    model_options,
    pick_device,
)

PACKAGE = "sentence-transformers>=6.0"


class MultiVector:
    """A loaded MultiVectorEncoder. Uses the prompts, lengths, query expansion and masks of the checkpoint."""

    def __init__(self, model: Any, info: EncoderInfo, batch_size: int) -> None:
        self.info = info
        self._model = model
        self._batch_size = batch_size

    def encode(self, texts: Sequence[str], kind: str, max_tokens: Optional[int] = None) -> List[Encoded]:
        """See Encoder.encode. An expanded query has a fixed number of tokens, which `max_tokens` does not change."""
        options: Dict[str, Any] = {}
        if max_tokens is not None and not (kind == QUERY and self.info.query_expansion):
            limit = length_limit(self.info, kind, max_tokens)
            options["processing_kwargs"] = {"text": {"max_length": limit, "truncation": True}}
        encode = self._model.encode_query if kind == QUERY else self._model.encode_document
        matrices = encode(
            list(texts), batch_size=self._batch_size, show_progress_bar=False, convert_to_numpy=True, **options
        )
        truncated = cut_texts(self, texts, kind, max_tokens)
        return [Encoded(as_matrix(matrix), None, is_cut) for matrix, is_cut in zip(matrices, truncated)]

    def count_tokens(self, texts: Sequence[str], kind: str) -> List[int]:
        """See Encoder.count_tokens."""
        prefix = self.info.query_prefix if kind == QUERY else self.info.document_prefix
        rows = self._model.tokenizer([prefix + text for text in texts], truncation=False, padding=False)["input_ids"]
        return [len(row) for row in rows]


def load(
    model: str, device: str, model_dtype: Optional[str], max_tokens: Optional[int], name: str, batch_size: int, **_: Any
) -> MultiVector:
    """Loads a model from a folder, or by its name in the Hub. `max_tokens` limits queries and documents. Raises
    EncoderError."""
    library = import_or_explain("sentence_transformers", PACKAGE)
    torch = import_or_explain("torch", "torch")
    if not hasattr(library, "MultiVectorEncoder"):
        raise EncoderError(f"sentence-transformers {library.__version__} has no MultiVectorEncoder: '{PACKAGE}' has")
    chosen = pick_device(torch, device)
    try:
        loaded = library.MultiVectorEncoder(model, device=chosen, model_kwargs=model_options(torch, model_dtype))
    except (OSError, ValueError, RuntimeError) as error:
        raise EncoderError(f"--model {model}: {first_line(error)}") from None
    loaded.eval()
    return MultiVector(loaded, _info(loaded, model, name, max_tokens), batch_size)


def _info(loaded: Any, model: str, name: str, max_tokens: Optional[int]) -> EncoderInfo:
    transformer = loaded[0]
    expansion = getattr(transformer, "query_expansion", None)
    whole = int(min(getattr(transformer, "max_seq_length", None) or 512, 1 << 20))
    query_length = getattr(transformer, "query_length", None) or whole
    if expansion:
        query_length = int(expansion["length"]) if expansion.get("strategy") == "fixed" else query_length
    elif max_tokens is not None:
        query_length = min(query_length, max_tokens)
        transformer.query_length = query_length
    document_length = getattr(transformer, "document_length", None) or whole
    if max_tokens is not None:
        document_length = min(document_length, max_tokens)
        transformer.document_length = document_length
    prompts = loaded.prompts or {}
    settings: Dict[str, Any] = {
        "query_prefix": prompts.get(QUERY) or "",
        "document_prefix": prompts.get("document") or "",
        "query_length": int(query_length),
        "document_length": int(document_length),
        "query_expansion": bool(expansion),
    }
    dim = int(loaded.get_embedding_dimension() or _measured_dim(loaded))
    return describe(model, name, dim, settings)


def _measured_dim(loaded: Any) -> int:
    """Encodes a text to find out the number of columns, for a model that does not report it."""
    return int(loaded.encode_query(["a"], show_progress_bar=False, convert_to_numpy=True)[0].shape[-1])

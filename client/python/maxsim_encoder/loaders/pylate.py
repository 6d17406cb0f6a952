"""Checkpoints through PyLate's models.ColBERT."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from maxsim_encoder.encoder import QUERY, Encoded, EncoderError, EncoderInfo, cut_texts
from maxsim_encoder.loaders.torch_models import (
    as_matrix,
    describe,
    first_line,
    import_or_explain,
    model_options,
    pick_device,
)


class PyLate:
    """A loaded ColBERT. Uses the marker tokens, lengths, query expansion and skip list of the checkpoint."""

    def __init__(self, model: Any, info: EncoderInfo, batch_size: int) -> None:
        self.info = info
        self._model = model
        self._batch_size = batch_size

    def encode(self, texts: Sequence[str], kind: str, max_tokens: Optional[int] = None) -> List[Encoded]:
        """See Encoder.encode. An expanded query has a fixed number of tokens, which `max_tokens` does not change."""
        is_query = kind == QUERY
        name = "query_length" if is_query else "document_length"
        own = getattr(self._model, name)
        shorter = max_tokens is not None and max_tokens < own and not (is_query and self.info.query_expansion)
        try:
            if shorter:
                setattr(self._model, name, max_tokens)
            matrices = self._model.encode(
                list(texts),
                batch_size=self._batch_size,
                is_query=is_query,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        finally:
            if shorter:
                setattr(self._model, name, own)
        truncated = cut_texts(self, texts, kind, max_tokens)
        return [Encoded(as_matrix(matrix), None, is_cut) for matrix, is_cut in zip(matrices, truncated)]

    def encode_with_pieces(self, texts: Sequence[str], kind: str) -> List[Encoded]:
        """Encodes, and adds the word piece of each vector if the checkpoint's rules tell it. Runs the tokenizer a
        second time."""
        is_query = kind == QUERY
        encoded = self.encode(texts, kind)
        features = self._model.tokenize(list(texts), is_query=is_query)
        keep = features["attention_mask"].bool()
        if not is_query:
            keep &= self._model.skiplist_mask(features["input_ids"], skiplist=self._model.skiplist)
        elif self._model.do_query_expansion:
            keep[:] = True
        result = []
        for ids, mask, one in zip(features["input_ids"], keep, encoded):
            pieces: List[str] = self._model.tokenizer.convert_ids_to_tokens(ids[mask].tolist())
            result.append(one._replace(pieces=pieces if len(pieces) == len(one.vectors) else None))
        return result

    def count_tokens(self, texts: Sequence[str], kind: str) -> List[int]:
        """See Encoder.count_tokens. PyLate puts a marker token for the kind before each text."""
        rows = self._model.tokenizer(list(texts), truncation=False, padding=False)["input_ids"]
        return [len(row) + 1 for row in rows]


def load(
    model: str, device: str, model_dtype: Optional[str], max_tokens: Optional[int], name: str, batch_size: int, **_: Any
) -> PyLate:
    """Loads a model from a folder, or by its name in the Hub. `max_tokens` limits queries and documents. Raises
    EncoderError."""
    models = import_or_explain("pylate.models", "pylate")
    torch = import_or_explain("torch", "torch")
    chosen = pick_device(torch, device)
    try:
        loaded = models.ColBERT(model_name_or_path=model, device=chosen, model_kwargs=model_options(torch, model_dtype))
    except (OSError, ValueError, RuntimeError) as error:
        raise EncoderError(f"--model {model}: {first_line(error)}") from None
    if max_tokens is not None:
        loaded.document_length = min(int(loaded.document_length), max_tokens)
        if not loaded.do_query_expansion:
            loaded.query_length = min(int(loaded.query_length), max_tokens)
    return PyLate(loaded, _info(loaded, model, name), batch_size)


def _info(loaded: Any, model: str, name: str) -> EncoderInfo:
    settings: Dict[str, Any] = {
        "query_prefix": str(loaded.query_prefix or ""),
        "document_prefix": str(loaded.document_prefix or ""),
        "query_length": int(loaded.query_length),
        "document_length": int(loaded.document_length),
        "query_expansion": bool(loaded.do_query_expansion),
    }
    return describe(model, name, int(loaded.get_sentence_embedding_dimension()), settings)

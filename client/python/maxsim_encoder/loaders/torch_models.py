"""What the loaders of PyTorch models share."""

from __future__ import annotations

import importlib
import json
import pathlib
from typing import Any, Dict, Optional

import numpy as np

from maxsim_encoder.encoder import EncoderError, EncoderInfo, Matrix
from maxsim_encoder.fingerprint import checkpoint_files, fingerprint

DTYPES = ("float32", "float16", "bfloat16")


def import_or_explain(module: str, package: str) -> Any:
    """Returns the imported module. If it is missing, raises an EncoderError that says what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = error.name or module
        raise EncoderError(f"the package {missing} is missing: pip install '{package}'") from None


def pick_device(torch: Any, name: str) -> str:
    """Returns the device that "auto" selects, or `name` if PyTorch has that device. Raises EncoderError."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise EncoderError(f"--device {name}: PyTorch finds no CUDA device here")
    return name


def model_options(torch: Any, dtype: Optional[str]) -> Dict[str, Any]:
    """Returns options for the model's from_pretrained. With None, the checkpoint decides the type."""
    return {} if dtype is None else {"torch_dtype": getattr(torch, dtype)}


def served_name(model: str, name: str) -> str:
    """Returns the name under which a checkpoint is served: `name` if it is set, otherwise the name in the Hub, or the
    folder's name without its path, which differs between machines."""
    folder = pathlib.Path(model)
    return name or (folder.resolve().name if folder.is_dir() else model)


def as_matrix(values: Any) -> Matrix:
    """Returns a library's result as float32 [tokens, dim] in C order."""
    return np.ascontiguousarray(values, dtype=np.float32)


def describe(model: str, name: str, dim: int, settings: Dict[str, Any]) -> EncoderInfo:
    """Returns the description of a loaded checkpoint. `settings` are the members of EncoderInfo that only the library
    knows. EncoderError: the checkpoint has no files, or its projection would be random."""
    files = files_of(model)
    check_trained(model, files)
    return EncoderInfo(
        model=served_name(model, name), fingerprint=fingerprint(files.items(), settings), dim=dim, **settings
    )


def files_of(name: str) -> Dict[str, pathlib.Path]:
    """Returns the checkpoint's files by name, for its fingerprint. They are those of the folder `name`, or of the
    snapshot in the Hub's cache from which the name was loaded. EncoderError: neither exists."""
    folder = pathlib.Path(name)
    if not folder.is_dir():
        hub = import_or_explain("huggingface_hub", "huggingface_hub")
        try:
            folder = pathlib.Path(hub.snapshot_download(name, local_files_only=True))
        except Exception as error:  # the Hub's own errors differ between its releases
            message = f"--model {name}: no such folder, and not in the Hub's cache: {first_line(error)}"
            raise EncoderError(message) from None
    files = dict(checkpoint_files(folder))
    if not files:
        raise EncoderError(f"--model {name}: {folder} holds no weights")
    return files


def check_trained(name: str, files: Dict[str, pathlib.Path]) -> None:
    """Raises EncoderError if the checkpoint was not saved as a late-interaction model. Libraries load such a
    checkpoint, but give it a projection of random numbers, which are different in each process."""
    architectures = _json_of(files, "config.json").get("architectures") or []
    if any(one == "HF_ColBERT" or str(one).endswith("ForRetrieval") for one in architectures):
        return
    saved = _json_of(files, "config_sentence_transformers.json")
    if saved.get("model_type") in ("MultiVectorEncoder", "ColBERT") or "document_length" in saved:
        return
    raise EncoderError(f"--model {name}: not a late-interaction checkpoint: its projection would be random")


def _json_of(files: Dict[str, pathlib.Path], name: str) -> Dict[str, Any]:
    if name not in files:
        return {}
    value = json.loads(files[name].read_text(encoding="utf-8"))
    return value if isinstance(value, dict) else {}


def first_line(error: BaseException) -> str:
    """Returns the first line of an exception's message, or the exception's type."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__

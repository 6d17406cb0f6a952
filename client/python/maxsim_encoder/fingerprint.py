"""The fingerprint of an encoder: the same in every process that has the same weights, tokenizer and settings."""

from __future__ import annotations

import hashlib
import json
import pathlib
from typing import Any, Iterable, List, Mapping, Tuple

HEX_DIGITS = 16
_BLOCK_BYTES = 1 << 20
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_TOKENIZERS = (".json", ".model", ".txt", ".metadata")
# Exports of the same weights, and checkpoints of a training run, are not part of the served model.
_LEFT_OUT_FOLDERS = ("onnx", "openvino", "checkpoint-")
_LEFT_OUT_FILES = ("README.md", "data_config.json")


def fingerprint(files: Iterable[Tuple[str, pathlib.Path]], settings: Mapping[str, Any]) -> str:
    """Returns HEX_DIGITS hexadecimal digits of a SHA-256 over the files' names and bytes, in the order of the names,
    and over the settings as JSON with sorted keys. The folder of the files does not matter. Raises OSError."""
    digest = hashlib.sha256()
    for name, path in sorted(files):
        digest.update(f"{name}\0{path.stat().st_size}\0".encode())
        with open(path, "rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    digest.update(json.dumps(settings, sort_keys=True, separators=(",", ":"), default=str).encode())
    return digest.hexdigest()[:HEX_DIGITS]


def checkpoint_files(folder: pathlib.Path) -> List[Tuple[str, pathlib.Path]]:
    """Returns (name relative to the folder, path) for the weights, configurations and tokenizer of a checkpoint. If a
    folder has weights as safetensors, leaves out the same weights in other formats."""
    found: List[Tuple[str, pathlib.Path]] = []
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        if any(part.startswith(".") or part.startswith(_LEFT_OUT_FOLDERS) for part in parts[:-1]):
            continue
        if path.name.startswith(".") or path.name in _LEFT_OUT_FILES or not path.is_file():
            continue
        if path.suffix in _TOKENIZERS or path.suffix == ".safetensors":
            found.append(("/".join(parts), path))
        elif path.suffix in _WEIGHTS and not any(path.parent.glob("*.safetensors")):
            found.append(("/".join(parts), path))
    return found

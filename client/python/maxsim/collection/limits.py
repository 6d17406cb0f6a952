"""The limits of the collection format (docs/reference/formats.md), the names of its storage types, and the check of a
writer's options against the limits. The server's own limits are in kernels/limits.h."""

from typing import Any, Optional

import numpy as np

from .errors import CollectionError, quote

MIN_DIM = 8
MAX_DIM = 4096
MAX_DOCUMENT_TOKENS = 65536
MAX_SHARD_DOCUMENTS = (1 << 32) - 1
MAX_SHARDS = 100_000
MAX_ABS_VALUE = 1e12
MAX_F16 = 65504
MAX_ID_BYTES = 512
MAX_PAYLOAD_BYTES = 1 << 20
MAX_PAYLOAD_DEPTH = 64
MAX_ROTATION_SEED = (1 << 53) - 1
MAX_NAME_BYTES = 128
MAX_ENCODER_TEXT_BYTES = 1024
MAX_ENCODER_LENGTH = 65536
MAX_MANIFEST_BYTES = 128 << 20

# The smallest max_shard_bytes that a caller may ask for. A document that is larger than max_shard_bytes gets its own
# shard.
MIN_MAX_SHARD_BYTES = 8192
DEFAULT_MAX_SHARD_BYTES = 4 << 30

# The size of a value of each storage, and the name of its type in safetensors.
VALUE_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "i8": 1}
SAFETENSORS_TYPES = {"f16": "F16", "bf16": "BF16", "f32": "F32", "i8": "I8"}

# Storages of residual codes. Collections of these have a codebook.
RESIDUAL_STORAGES = ("residual1", "residual2", "residual4", "residual8")
MAX_RESIDUAL_DIM = 1024
MAX_RESIDUAL_VALUE = 30000.0
MAX_CENTROIDS = 1 << 24

# The offset in a shard file where the data section begins.
DATA_BEGIN = 4096

# The largest scale of an i8 document. With it, no value exceeds MAX_ABS_VALUE.
MAX_INT8_SCALE = np.float32(MAX_ABS_VALUE) / np.float32(127)

# The numbers of planes that codes may have.
PLANE_COUNTS = (1, 2, 4)


def check_options(
    dim: Any, storage: Any, max_shard_bytes: Any, codes: Any, rotation_seed: Any, num_threads: Any
) -> None:
    """Raises CollectionError for an option that is not valid."""
    _check_integer("dim", dim, MIN_DIM, MAX_DIM)
    _check_integer("max_shard_bytes", max_shard_bytes, MIN_MAX_SHARD_BYTES, None)
    _check_integer("rotation_seed", rotation_seed, 0, MAX_ROTATION_SEED)
    if num_threads is not None:
        _check_integer("num_threads", num_threads, 1, None)
    if storage is not None and storage not in VALUE_BYTES:
        raise CollectionError(f"{quote(str(storage))}; must be f32, f16, bf16 or i8", field="storage")
    if codes is not None and (type(codes) is not int or codes not in (0, *PLANE_COUNTS)):
        raise CollectionError(f"{codes!r:.100}; must be 0, 1, 2 or 4 planes", field="codes")
    check_rotation_seed(rotation_seed, storage, codes)


def check_rotation_seed(seed: int, storage: Optional[str], codes: Optional[int]) -> None:
    """Raises CollectionError if there is a seed but nothing to rotate. `storage` is None if it is not known yet."""
    if seed != 0 and storage not in (None, "i8") and not codes:
        raise CollectionError(
            f"{seed}: only i8 and codes are rotated, but the storage is {storage}", field="rotation_seed"
        )


def _check_integer(name: str, value: Any, low: int, high: Optional[int]) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise CollectionError(f"{value!r:.100}; must be an integer", field=name)
    if value < low or (high is not None and value > high):
        limits = f"in {low} .. {high}" if high is not None else f"{low} or more"
        raise CollectionError(f"{value} is not {limits}", field=name)

"""The limits and names of the formats (docs/reference/formats.md). The server's own stand in kernels/limits.h."""

import numpy as np

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

# A document that is larger than the least has a shard of its own.
MIN_MAX_SHARD_BYTES = 8192
DEFAULT_MAX_SHARD_BYTES = 4 << 30

# These are the bytes of a value of each storage, and what safetensors calls its type.
VALUE_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "i8": 1}
SAFETENSORS_TYPES = {"f16": "F16", "bf16": "BF16", "f32": "F32", "i8": "I8"}

# The data section of a shard begins here.
DATA_BEGIN = 4096

# The largest scale of an i8 document: no value passes MAX_ABS_VALUE.
MAX_INT8_SCALE = np.float32(MAX_ABS_VALUE) / np.float32(127)

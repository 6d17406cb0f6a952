"""The functions of flash-maxsim 0.3.0, computed by the operators of maxsim_torch.

    from maxsim_torch.compat import flash_maxsim            # was: import flash_maxsim
    from maxsim_torch.compat.flash_maxsim.flash_maxsim_varlen import pack_pairs

Names, arguments, defaults, shapes and types of results are those of flash-maxsim, in the same submodules. Scores are
float32. A document without a token scores minus infinity, and a query without one scores 0. If several document tokens
are equally similar, the first one is the match. As in flash-maxsim, functions without `train` in their names give
scores without a graph. All functions work on the CPU too. Shapes that do not fit raise ArgumentError, which is an
AssertionError, as in flash-maxsim, and also a ValueError. What the operators refuse, such as a wrong length or too many
columns, is a ValueError or a TypeError.

Differences from flash-maxsim, and their reasons:

- Queries are converted to the documents' type (float32, float16, bfloat16), in which products are computed.
  flash-maxsim rounds all inputs to float16.
- `query_chunk_size`, `pad_lq`, `splitk`, `num_splits`, `grid_factor`, `b_tile`, `max_seqlen_d` and the variable
  FLASH_BWD_PATH choose launches of flash-maxsim's kernels. They are accepted and have no effect.
- `query_lengths` apply to all shapes. flash-maxsim's flash_maxsim_batched ignores them for queries of more than 128
  tokens and for fewer than 500 pairs.
- Gradients have the same bits in every run. There is one backward pass; flash_maxsim_batched_train_fused and similar
  functions are other names for it. A document without a token has no gradient; in flash-maxsim its padding has one.
- INT8 documents with queries in floating point (flash_maxsim_int8, flash_maxsim_int8_symmetric): the operators need
  INT8 on both sides or on none, so documents are converted to floating point, 64 MiB at a time. With INT8 on both sides
  (flash_maxsim_int8x8) nothing is converted; codes of -128 are not allowed there.
- flash_maxsim_sparse is the submodule, as in flash-maxsim, and may also be called as its function. It gathers the
  chosen query tokens of a part of the documents at a time, because the operators have one mask per query, and not one
  per pair.
- flash_maxsim_topk without `D_int8` scores all documents exactly, because quantising them first would cost more.
- colbert_contrastive_step accepts any labels and shapes, and float32. flash-maxsim's kernel accepts labels on the
  diagonal, at most 32 query tokens, and powers of two up to 256 for d.
- flash_chamfer with metric "l1" calls torch.cdist for a part of the points at a time, because the operators only
  compute squared Euclidean distances. Metrics other than "l2_sq" and "l1" are errors; flash-maxsim treats them as
  "l2_sq".
- maxsim_torch's limits apply: d at most 4,096, 4,096 tokens per query, 65,536 per document.

Not included: names that begin with an underscore, and functions that tune Triton's launches (pick_config,
should_use_sparse_dd_auto), because there is nothing here to tune.
"""

from . import (
    flash_maxsim_contrastive,
    flash_maxsim_exp,
    flash_maxsim_fusedbwd_proposal,
    flash_maxsim_invgrid_proposal,
    flash_maxsim_persistbwd_proposal,
    flash_maxsim_sortbwd_proposal,
    flash_maxsim_sparse,
    flash_maxsim_sparse_dd,
    flash_maxsim_torchbwd_proposal,
)
from ._arguments import ArgumentError
from .flash_chamfer import flash_chamfer, flash_chamfer_train, naive_chamfer, naive_chamfer_one_direction
from .flash_chamfer_invgrid import flash_chamfer_invgrid_train
from .flash_maxsim import (
    flash_maxsim,
    flash_maxsim_batched,
    flash_maxsim_pairs,
    flash_maxsim_persistent,
    flash_maxsim_train,
)
from .flash_maxsim_advanced import flash_maxsim_qreuse, flash_maxsim_splitk
from .flash_maxsim_batched_train import flash_maxsim_batched_train
from .flash_maxsim_int8_train import flash_maxsim_int8_batched_train
from .flash_maxsim_pairs_dense import flash_maxsim_pairs_dense
from .flash_maxsim_quant import (
    dequantize_int8,
    flash_maxsim_int8,
    flash_maxsim_int8_symmetric,
    flash_maxsim_int8x8,
    quantize_int8,
    quantize_int8_symmetric,
    quantize_query_int8,
)
from .flash_maxsim_rerank import flash_maxsim_rerank, flash_maxsim_rerank_direct, flash_maxsim_rerank_padded
from .flash_maxsim_sparse import maxsim_sparse_naive
from .flash_maxsim_topk import flash_maxsim_topk
from .flash_maxsim_torchbwd_proposal import torch_backward, torch_backward_tiled
from .flash_maxsim_varlen import flash_maxsim_packed, flash_maxsim_varlen, pack_docs, pack_pairs
from .naive import (
    maxsim_at_operator,
    maxsim_bmm,
    maxsim_chunked,
    maxsim_naive,
    maxsim_naive_batched,
    maxsim_naive_fp32,
    maxsim_naive_int8,
)
from .warmup import warmup

__all__ = [
    "ArgumentError",
    "dequantize_int8",
    "flash_chamfer",
    "flash_chamfer_invgrid_train",
    "flash_chamfer_train",
    "flash_maxsim",
    "flash_maxsim_batched",
    "flash_maxsim_batched_train",
    "flash_maxsim_contrastive",
    "flash_maxsim_exp",
    "flash_maxsim_fusedbwd_proposal",
    "flash_maxsim_int8",
    "flash_maxsim_int8_batched_train",
    "flash_maxsim_int8_symmetric",
    "flash_maxsim_int8x8",
    "flash_maxsim_invgrid_proposal",
    "flash_maxsim_packed",
    "flash_maxsim_pairs",
    "flash_maxsim_pairs_dense",
    "flash_maxsim_persistbwd_proposal",
    "flash_maxsim_persistent",
    "flash_maxsim_qreuse",
    "flash_maxsim_rerank",
    "flash_maxsim_rerank_direct",
    "flash_maxsim_rerank_padded",
    "flash_maxsim_sortbwd_proposal",
    "flash_maxsim_sparse",
    "flash_maxsim_sparse_dd",
    "flash_maxsim_splitk",
    "flash_maxsim_topk",
    "flash_maxsim_torchbwd_proposal",
    "flash_maxsim_train",
    "flash_maxsim_varlen",
    "maxsim_at_operator",
    "maxsim_bmm",
    "maxsim_chunked",
    "maxsim_naive",
    "maxsim_naive_batched",
    "maxsim_naive_fp32",
    "maxsim_naive_int8",
    "maxsim_sparse_naive",
    "naive_chamfer",
    "naive_chamfer_one_direction",
    "pack_docs",
    "pack_pairs",
    "quantize_int8",
    "quantize_int8_symmetric",
    "quantize_query_int8",
    "torch_backward",
    "torch_backward_tiled",
    "warmup",
]
# The release whose functions these are.
__version__ = "0.3.0"

"""The functions of flash-maxsim 0.3.0, computed by the operators of maxsim_torch.

    from maxsim_torch.compat import flash_maxsim            # was: import flash_maxsim
    from maxsim_torch.compat.flash_maxsim.flash_maxsim_varlen import pack_pairs

Names, arguments, defaults, shapes and types of results are those of flash-maxsim, in the same submodules. Scores are
float32. A document without a token scores minus infinity, a query without one 0, and of equal similarities the first
document token is the match. Functions whose name has no `train` give scores without a graph, as there. All of them work
on the CPU too. Shapes that do not fit raise ArgumentError: an AssertionError, as in flash-maxsim, and a ValueError too.
What the operators refuse, such as a length or too many columns, is a ValueError or a TypeError.

What is different, and why:

- Inputs are multiplied in the type of the documents (float32, float16, bfloat16), to which queries are converted.
  flash-maxsim rounds all of them to float16.
- `query_chunk_size`, `pad_lq`, `splitk`, `num_splits`, `grid_factor`, `b_tile`, `max_seqlen_d` and the variable
  FLASH_BWD_PATH choose launches of flash-maxsim's kernels. They are accepted and change nothing.
- `query_lengths` count whatever the shapes are. flash-maxsim's flash_maxsim_batched passes over them for queries of
  more than 128 tokens and for fewer than 500 pairs.
- Gradients are the same bits in every run, and there is one backward pass. flash_maxsim_batched_train_fused and its
  relatives are names for it. A document without a token has no gradient; flash-maxsim gives its padding one.
- INT8 documents with queries in floating point (flash_maxsim_int8, flash_maxsim_int8_symmetric): the operators take
  INT8 on both sides or on none, so that documents become floating point a part at a time, 64 MiB each. With INT8 on
  both sides (flash_maxsim_int8x8) nothing is converted; codes of -128 are not allowed there.
- flash_maxsim_sparse is the submodule, as in flash-maxsim, and may be called as its function. It gathers the chosen query tokens of a part of the documents at a time: the operators have one mask
  for a query and not one for each pair.
- flash_maxsim_topk without `D_int8` scores all documents exactly; quantising them first would cost more.
- colbert_contrastive_step takes any labels and shapes, and float32; flash-maxsim's kernel has labels on the diagonal,
  at most 32 query tokens, and d a power of two up to 256.
- flash_chamfer with metric "l1" is torch.cdist over a part of the points at a time: the operators know squared
  Euclidean distances alone. Metrics other than "l2_sq" and "l1" are errors; flash-maxsim takes them for "l2_sq".
- maxsim_torch's limits hold: d at most 4,096, 4,096 tokens a query, 65,536 a document.

What is missing: names that begin with an underscore, and what tunes Triton's launches (pick_config,
should_use_sparse_dd_auto), for there is nothing here that it would tune.
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

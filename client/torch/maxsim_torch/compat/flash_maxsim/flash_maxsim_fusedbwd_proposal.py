"""A name of flash-maxsim for another backward pass: here it is flash_maxsim_batched_train's."""

from .flash_maxsim_batched_train import flash_maxsim_batched_train as flash_maxsim_batched_train_fused

__all__ = ["flash_maxsim_batched_train_fused"]

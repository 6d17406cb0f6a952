"""A name that flash-maxsim has for another backward pass. Here it does the same as flash_maxsim_batched_train."""

from .flash_maxsim_batched_train import flash_maxsim_batched_train as flash_maxsim_batched_train_persistbwd

__all__ = ["flash_maxsim_batched_train_persistbwd"]

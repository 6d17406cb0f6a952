"""Computes the gradients of maxsim from its matches: one implementation under two names."""

from .lowmem import maxsim_backward_lowmem
from .unified import maxsim_backward_unified, maxsim_backward_unified_reference

__all__ = ["maxsim_backward_lowmem", "maxsim_backward_unified", "maxsim_backward_unified_reference"]

"""colpali-engine by maxsim_torch.patch_colpali_engine, but for the releases that late-interaction-kernels leaves alone.

From 0.3.17 on colpali-engine asks for late-interaction-kernels by itself, and patch_colpali_engine here does nothing.
"""

import warnings

from ... import colpali_patch
from ...colpali_patch import _ORIGINAL, unpatch_colpali_engine
from ._utils import package_at_least

_COLPALI_NATIVE_MIN = "0.3.17"
_NATIVE_NOTICE_SHOWN = False


def patch_colpali_engine() -> None:
    """maxsim_torch.patch_colpali_engine, which see, for colpali-engine before 0.3.17. Later ones stay as they are, with a
    DeprecationWarning the first time."""
    global _NATIVE_NOTICE_SHOWN
    if not package_at_least("colpali-engine", _COLPALI_NATIVE_MIN):
        colpali_patch.patch_colpali_engine()
    elif not _NATIVE_NOTICE_SHOWN:
        _NATIVE_NOTICE_SHOWN = True
        warnings.warn(
            f"late-interaction-kernels (maxsim_torch): patch_colpali_engine() leaves colpali-engine from {_COLPALI_NATIVE_MIN} "
            f"on alone, as that package does. maxsim_torch.patch_colpali_engine() patches every colpali-engine.",
            DeprecationWarning,
            stacklevel=2,
        )


__all__ = ["_ORIGINAL", "patch_colpali_engine", "unpatch_colpali_engine"]

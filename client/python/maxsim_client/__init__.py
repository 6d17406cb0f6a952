"""The name that the package `maxsim` had before 0.3: its names under the old one. The next version has it no more."""

import warnings

from maxsim.client import Client, Document, Ranking, token_matrix

__all__ = ["Client", "Document", "Ranking", "token_matrix"]

warnings.warn("maxsim_client is named maxsim: from maxsim import Client", DeprecationWarning, stacklevel=2)

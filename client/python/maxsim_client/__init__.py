"""The old name of the package `maxsim`, before 0.3. Exports maxsim's names. The next version will not have it."""

import warnings

from maxsim.client import Client, Document, Ranking, token_matrix

__all__ = ["Client", "Document", "Ranking", "token_matrix"]

warnings.warn("maxsim_client is named maxsim: from maxsim import Client", DeprecationWarning, stacklevel=2)

"""The names of maxsim_client.client in `maxsim`."""

from maxsim.client import Client, Document, Ranking, token_matrix

__all__ = ["Client", "Document", "Ranking", "token_matrix"]

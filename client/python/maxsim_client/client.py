"""Exports the names of the old maxsim_client.client from `maxsim`."""

from maxsim.client import Client, Document, Ranking, token_matrix

__all__ = ["Client", "Document", "Ranking", "token_matrix"]

"""Client of maxsimd: NumPy arrays in, ranked documents out."""

from .client import Client, Document, Ranking, token_matrix

__all__ = ["Client", "Document", "Ranking", "token_matrix"]

"""Client of maxsimd: NumPy arrays in, ranked documents out."""

from .client import Client, Document, Ranking

__all__ = ["Client", "Document", "Ranking"]

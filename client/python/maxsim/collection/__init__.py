"""Writes collections that maxsimd serves, with CollectionWriter. Imports neither grpc nor torch."""

from .codebook import Codebook
from .errors import CollectionError, ShapeError
from .summary import Summary
from .writer import CollectionWriter

__all__ = ["Codebook", "CollectionError", "CollectionWriter", "ShapeError", "Summary"]

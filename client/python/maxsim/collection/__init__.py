"""Writes collections that maxsimd serves: CollectionWriter. Imports neither grpc nor torch."""

from .errors import CollectionError, ShapeError
from .summary import Summary
from .writer import CollectionWriter

__all__ = ["CollectionError", "CollectionWriter", "ShapeError", "Summary"]

"""Writes collections that maxsimd serves: CollectionWriter. Imports neither grpc nor torch."""

from .errors import CollectionError, ShapeError
from .writer import CollectionWriter, Summary

__all__ = ["CollectionError", "CollectionWriter", "ShapeError", "Summary"]

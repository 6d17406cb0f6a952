"""Importers of the indexes and tensor files of late-interaction libraries."""

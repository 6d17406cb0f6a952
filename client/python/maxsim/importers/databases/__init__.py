"""Importers of files that vector databases exported."""

"""Importers of what vector databases exported."""

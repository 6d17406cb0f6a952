"""Readers of files that several families of importers share."""

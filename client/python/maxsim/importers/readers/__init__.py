"""Readers that several families of importers share."""

"""Importers of array files: NumPy, Zarr, HDF5."""

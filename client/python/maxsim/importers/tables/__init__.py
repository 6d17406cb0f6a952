"""Importers of tables: Arrow, Parquet, datasets, LanceDB."""

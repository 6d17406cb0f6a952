"""Imports other libraries' files as collections of maxsimd: `maxsim import`, docs/use/import.md."""

from __future__ import annotations

from maxsim.importers.importing import STORAGES, ImportReport, Progress, import_collection
from maxsim.importers.registry import KINDS, Kind, open_source
from maxsim.importers.source import (
    ALL_COLUMNS,
    DocumentId,
    ImportOptions,
    OptionError,
    Source,
    SourceDocument,
    SourceError,
    check_options,
)

__all__ = [
    "ALL_COLUMNS",
    "KINDS",
    "STORAGES",
    "DocumentId",
    "ImportOptions",
    "ImportReport",
    "Kind",
    "OptionError",
    "Progress",
    "Source",
    "SourceDocument",
    "SourceError",
    "check_options",
    "import_collection",
    "open_source",
]

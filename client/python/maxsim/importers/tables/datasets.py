"""The kind `datasets`: a folder that save_to_disk of Hugging Face's datasets wrote. Its shards are Arrow streams,
which state.json lists. So reading it does not need datasets itself."""

from __future__ import annotations

import os
from typing import Any, Iterator, List

from maxsim.importers.tables.arrow_files import count_rows, read_batches, read_schema
from maxsim.importers.readers.opening import open_regular
from maxsim.importers.source import ImportOptions, Source, SourceError, check_options
from maxsim.importers.tables.table_source import TABLE_OPTIONS, Batch, TableSource
from maxsim.unique_json import parse_json


def open_source(path: str, options: ImportOptions) -> Source:
    """Opens the data set at `path`. If it has several parts, --split names the part."""
    check_options("datasets", options, (*TABLE_OPTIONS, "split"))
    folder = _choose_split(path, options)
    state_path = os.path.join(folder, "state.json")
    if not os.path.isfile(state_path):
        raise SourceError(f"{folder}: has no state.json and no dataset_dict.json: save_to_disk did not write it")
    state = _read_json(state_path)
    try:
        names = [str(entry["filename"]) for entry in state["_data_files"]]
        has_indices = bool(state.get("_indices_data_files"))
    except (KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"{state_path}: does not list _data_files: {error!r}") from None
    if has_indices:
        raise SourceError(f"{state_path}: has _indices_data_files; call flatten_indices() and save it again")
    if not names:
        raise SourceError(f"{state_path}: lists no file: the data set is empty")
    if any(os.path.basename(name) != name for name in names):
        raise SourceError(f"{state_path}: names a file outside of its folder")
    paths = [os.path.join(folder, name) for name in names]

    def open_batches(columns: List[str], rows_at_once: int) -> Iterator[Batch]:
        return read_batches(paths, columns)

    return TableSource("datasets", folder, read_schema(paths[0]), count_rows(paths), open_batches, options)


def _choose_split(path: str, options: ImportOptions) -> str:
    splits_path = os.path.join(path, "dataset_dict.json")
    if not os.path.isfile(splits_path):
        if options.split is not None:
            raise SourceError(f"--split {options.split}: {path} is one data set without splits")
        return path
    content = _read_json(splits_path)
    splits = [str(name) for name in content.get("splits", [])] if isinstance(content, dict) else []
    chosen = options.split if options.split is not None else splits[0] if len(splits) == 1 else None
    if chosen is None or chosen not in splits:
        raise SourceError(f"{path}: give --split, one of {', '.join(splits) or 'none'}")
    return os.path.join(path, chosen)


def _read_json(path: str) -> Any:
    try:
        with open_regular(path, "r", encoding="utf-8") as file:
            return parse_json(file.read())
    except ValueError as error:
        raise SourceError(f"{path}: is not JSON: {error}") from None

"""Converts columns of Parquet into queries and lists of ids, and answers into columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines import Answer, join
from manifests import Collection, Id, InputError

MAX_QUERY_TOKENS = 4096

QUERY_ID, TOKENS, CANDIDATES = "query_id", "tokens", "candidates"
# Columns with which a batch carries the answers of the partitions so far to the last partition. A row has one query's
# list.
PART_IDS, PART_SCORES, PART_POSITIONS = "part_ids", "part_scores", "part_positions"


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def check_schema(schema: pa.Schema, collection: Collection, with_candidates: bool) -> None:
    """Raises InputError if the columns of the queries are not those that run.py takes."""
    for name in (QUERY_ID, TOKENS, *([CANDIDATES] if with_candidates else [])):
        if name not in schema.names:
            raise InputError(f"--queries: there is no column {name!r} among {', '.join(map(repr, schema.names))}")
    kind = schema.field(QUERY_ID).type
    if not is_string(kind) and not pa.types.is_integer(kind):
        raise InputError(f"--queries: {QUERY_ID} is {kind}; must be a string or an integer")
    kind = schema.field(TOKENS).type
    if not is_list(kind) or not is_list(kind.value_type) or not pa.types.is_floating(kind.value_type.value_type):
        raise InputError(f"--queries: {TOKENS} is {kind}; must be a list of token vectors, lists of halffloat or float")
    if pa.types.is_fixed_size_list(kind.value_type):
        check_dim("--queries", kind.value_type.list_size, collection)
    if with_candidates:
        kind = schema.field(CANDIDATES).type
        wanted = collection.id_type
        is_right = is_list(kind) and (is_string if wanted == "string" else pa.types.is_integer)(kind.value_type)
        if not is_right:
            raise InputError(f"--queries: {CANDIDATES} is {kind}; collection {collection.name} has ids of {wanted}")


def check_dim(where: str, dim: int, collection: Collection) -> None:
    if dim != collection.dim:
        raise InputError(f"{where}: a token vector has {dim} columns, those of {collection.name} {collection.dim}")


def read_queries(table: pa.Table, collection: Collection) -> list[npt.NDArray[Any]]:
    """Returns the token vectors [tokens, dim] of each row. Raises InputError, which names the query, for a wrong number
    of columns, for values that are null or not finite, and for a query without tokens or with too many."""
    column = table[TOKENS].combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    vectors = pc.list_flatten(column)
    widths = pc.fill_null(pc.list_value_length(vectors), 0).to_numpy()
    ends = np.cumsum(lengths)
    names = table[QUERY_ID]
    for row in np.flatnonzero((lengths == 0) | (lengths > MAX_QUERY_TOKENS)):
        raise InputError(f"query {names[row]}: has {lengths[row]} tokens; must have 1 to {MAX_QUERY_TOKENS}")
    for token in np.flatnonzero(widths != collection.dim):
        check_dim(f"query {names[int(np.searchsorted(ends, token, 'right'))]}", int(widths[token]), collection)
    values = pc.list_flatten(vectors).to_numpy(zero_copy_only=False).reshape(-1, collection.dim)  # null is NaN
    for token in np.flatnonzero(~np.isfinite(values).all(axis=1)):
        raise InputError(f"query {names[int(np.searchsorted(ends, token, 'right'))]}: a value is not finite")
    return [np.ascontiguousarray(part) for part in np.split(values, ends[:-1])]


def read_candidates(table: pa.Table, collection: Collection) -> tuple[list[list[Id]], list[npt.NDArray[np.int64]]]:
    """Returns for each row the listed ids whose documents belong to the partition, each once, and their indices in the
    list."""
    ids, places = [], []
    for name, listed in zip(table[QUERY_ID].to_pylist(), table[CANDIDATES].to_pylist()):
        if listed is None or None in listed:
            raise InputError(f"query {name}: {CANDIDATES} is null or has a null")
        first_places: dict[Id, int] = {}
        for place, id in enumerate(listed):
            if collection.is_whole or collection.holds(id):
                first_places.setdefault(id, place)
        ids.append(list(first_places))
        places.append(np.array(list(first_places.values()), np.int64))
    return ids, places


def add_answers(table: pa.Table, answers: Sequence[Answer], collection: Collection, k: int | None) -> pa.Table:
    """Adds the answers of one more partition to the queries. Keeps for each query the best `k` (None: all) of all
    answers so far."""
    if PART_IDS in table.column_names:
        answers = [join([before, answer], k) for before, answer in zip(_answers_so_far(table), answers)]
        table = table.drop_columns([PART_IDS, PART_SCORES, PART_POSITIONS])
    ends = np.cumsum([0] + [len(answer.ids) for answer in answers])
    columns = _flat_columns(answers, collection)
    for name, values in zip((PART_IDS, PART_SCORES, PART_POSITIONS), columns):
        table = table.append_column(name, pa.LargeListArray.from_arrays(pa.array(ends), values))
    return table


def final_table(table: pa.Table, collection: Collection) -> pa.Table:
    """Converts a table of add_answers into the table that run.py writes: one row for each query and document. Ranks
    count from 1."""
    answers = _answers_so_far(table)
    counts = np.array([len(answer.ids) for answer in answers], np.int64)
    rows = np.repeat(np.arange(len(answers)), counts)
    begins = np.cumsum(counts) - counts
    ids, scores, _ = _flat_columns(answers, collection)
    ranks = pa.array((np.arange(len(rows)) - begins[rows] + 1).astype(np.int32))
    names = [QUERY_ID, "document_id", "score", "rank"]
    return pa.Table.from_arrays([table[QUERY_ID].take(pa.array(rows)), ids, scores, ranks], names)


def _flat_columns(answers: Sequence[Answer], collection: Collection) -> tuple[pa.Array, pa.Array, pa.Array]:
    kind = pa.string() if collection.id_type == "string" else pa.int64()
    ids = pa.array([id for answer in answers for id in answer.ids], kind)
    scores = np.concatenate([np.zeros(0, np.float32), *[answer.scores for answer in answers]])
    positions = np.concatenate([np.zeros(0, np.int64), *[answer.positions for answer in answers]])
    return ids, pa.array(scores), pa.array(positions)


def _answers_so_far(table: pa.Table) -> list[Answer]:
    ids = table[PART_IDS].to_pylist()
    scores, positions = (table[name].combine_chunks() for name in (PART_SCORES, PART_POSITIONS))
    return [Answer(ids[i], scores[i].values.to_numpy(), positions[i].values.to_numpy()) for i in range(len(table))]

"""Sources whose vectors are arrays: packed with lengths, padded with a mask or lengths, ragged rows, or one array per
document. HDF5, Zarr, npz and padded files all give named arrays (members). This module decides what the arrays
hold."""

from __future__ import annotations

import itertools
import os
from typing import Callable, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from maxsim.importers.document_labels import Labels, NumberLabels, count_ids, find_member, open_labels, zip_documents
from maxsim.importers.readers.rows import (
    RowArray,
    ScaledRows,
    as_vectors,
    block_rows,
    check_columns,
    cut_documents,
    is_float,
    lengths_of,
)
from maxsim.importers.source import (
    ImportOptions,
    OptionError,
    PackedDocuments,
    PackedSource,
    Source,
    SourceDocument,
    SourceError,
)

VECTOR_NAMES = ("tokens", "vectors", "embeddings", "token_embeddings", "token_vectors", "data")
LENGTH_NAMES = ("lengths", "offsets", "num_tokens", "doclens")
MASK_NAMES = ("mask", "attention_mask")
# The name of the array with the factors of int8 token vectors.
SCALES_NAME = "scales"
# The value of --lengths that says that a padded array has no padding.
ALL_TOKENS = "all"

# The options of the kinds of import that read named arrays from a file.
ARRAY_OPTIONS = ("vectors_column", "lengths", "mask", "id_column", "ids", "payload_columns", "dim")


class ArraySource:
    """Documents whose vectors come from `open_vectors`, and their ids and payloads from `labels`."""

    def __init__(
        self,
        kind: str,
        dim: int,
        num_documents: int,
        notes: Sequence[str],
        open_vectors: Callable[[], Iterator[np.ndarray]],
        labels: Labels,
    ) -> None:
        self.kind = kind
        self.dim = dim
        self.num_documents: Optional[int] = num_documents
        self.notes = notes
        self._open_vectors = open_vectors
        self._labels = labels

    def __iter__(self) -> Iterator[SourceDocument]:
        for (id, payload), vectors in zip_documents(self._labels, self._open_vectors()):
            yield SourceDocument(id, vectors, payload)


class PackedArraySource(PackedSource):
    """Documents whose vectors are rows of one array, one document after the other. `labels` has their ids and
    payloads."""

    def __init__(
        self,
        kind: str,
        notes: Sequence[str],
        vectors: RowArray,
        lengths: np.ndarray,
        labels: Labels,
    ) -> None:
        self.kind = kind
        self.dim = vectors.shape[1]
        self.num_documents: Optional[int] = len(lengths)
        self.notes = notes
        self._vectors = vectors
        self._lengths = lengths
        self._labels = labels

    def packed(self) -> Iterator[PackedDocuments]:
        labels = iter(self._labels)
        for rows, first, last in cut_documents(map(as_vectors, self._vectors.blocks()), self._lengths):
            ids, payloads = zip(*itertools.islice(labels, last - first))
            lengths = self._lengths[first:last]
            yield PackedDocuments(ids, rows, lengths, payloads if any(payloads) else None)
        # Reads the labels to the end, to find surplus lines.
        next(labels, None)


def open_array_source(kind: str, where: str, members: Mapping[str, RowArray], options: ImportOptions) -> Source:
    """Opens documents whose vectors are in named arrays. Recognises the layout by the arrays' names and shapes.
    SourceError if no layout fits."""
    name = find_member(members, options.vectors_column, VECTOR_NAMES, where)
    if name is None:
        if members and all(len(member.shape) == 2 and is_float(member.dtype) for member in members.values()):
            return _open_separate(kind, where, members, options)
        padded = [name for name, member in members.items() if len(member.shape) == 3 and is_float(member.dtype)]
        if len(padded) != 1:
            raise SourceError(
                f"{where}: name the vectors with --vectors-column; there are {', '.join(list(members)[:20]) or 'none'}"
            )
        name = padded[0]
    vectors = members[name]
    if vectors.dtype.kind == "O" and len(vectors.shape) == 1:
        return _open_ragged(kind, where, members, name, options)
    is_scaled = vectors.dtype == np.int8 and SCALES_NAME in members
    if (is_float(vectors.dtype) or is_scaled) and len(vectors.shape) == 2:
        return _open_packed(kind, where, members, name, options)
    if is_float(vectors.dtype) and len(vectors.shape) == 3:
        return _open_padded(kind, where, members, name, options)
    raise SourceError(
        f"{vectors.where}: is {vectors.dtype} {list(vectors.shape)}; token vectors are float16, float32 or float64, "
        f"packed [T, dim] or padded [N, L, dim], or packed int8 with {SCALES_NAME!r} beside them"
    )


def _beside(
    members: Mapping[str, RowArray], option: Optional[str], guesses: Tuple[str, ...], where: str
) -> Tuple[Optional[str], Optional[RowArray]]:
    """Finds the member that `option` names, or the .npy file of this path, or, without an option, the member with one
    of the usual names. Returns the member's name (None for a file) and its array, or None twice if there is none."""
    if option is not None and option not in members and os.path.isfile(option):
        from maxsim.importers.arrays.array_files import open_npy

        return None, open_npy(option)
    name = find_member(members, option, guesses, where)
    return name, None if name is None else members[name]


def _open_packed(
    kind: str, where: str, members: Mapping[str, RowArray], name: str, options: ImportOptions
) -> PackedArraySource:
    if options.mask is not None:
        raise SourceError(f"--mask: {members[name].where} is packed [T, dim] and has no padding; give --lengths")
    vectors = members[name]
    dim = check_columns(vectors.where, vectors.shape[1], options.dim)
    lengths_name, counts = _beside(members, options.lengths, LENGTH_NAMES, where)
    if counts is None:
        raise SourceError(f"{vectors.where}: is packed [{vectors.shape[0]}, {dim}]; give --lengths, an array or a file")
    lengths = lengths_of(counts, vectors.shape[0], vectors.where, lambda: count_ids(members, options, where))
    if vectors.dtype == np.int8:
        vectors = ScaledRows(vectors, members[SCALES_NAME], lengths)
    labels, notes = open_labels(members, [name, lengths_name or name, SCALES_NAME], len(lengths), options, where)
    notes.insert(0, f"{vectors.where}: {vectors.dtype} {list(vectors.shape)}, packed by {counts.where}")
    return PackedArraySource(kind, notes, vectors, lengths, labels)


def _open_padded(
    kind: str, where: str, members: Mapping[str, RowArray], name: str, options: ImportOptions
) -> ArraySource:
    vectors = members[name]
    num_documents, num_tokens = vectors.shape[:2]
    dim = check_columns(vectors.where, vectors.shape[2], options.dim)
    if options.mask is not None and options.lengths is not None:
        raise OptionError("--mask, --lengths: give only one of them")
    mask_name: Optional[str] = None
    lengths_name: Optional[str] = None
    mask: Optional[RowArray] = None
    lengths: Optional[np.ndarray] = None
    if options.lengths != ALL_TOKENS:
        if options.lengths is None:
            mask_name, mask = _beside(members, options.mask, MASK_NAMES, where)
        if mask is None:
            lengths_name, counts = _beside(members, options.lengths, LENGTH_NAMES, where)
            if counts is None:
                raise SourceError(
                    f"{vectors.where}: is padded {list(vectors.shape)}; give --mask or --lengths, an array or a file, "
                    f"or --lengths {ALL_TOKENS} where nothing is padding"
                )
            lengths = _padded_lengths(counts, num_documents, num_tokens)
        elif mask.shape != (num_documents, num_tokens) or mask.dtype.kind not in "biuf":
            raise SourceError(
                f"{mask.where}: a mask of {vectors.where} is [{num_documents}, {num_tokens}], "
                f"it is {mask.dtype} {list(mask.shape)}"
            )
    taken = [name, mask_name or name, lengths_name or name]
    labels, notes = open_labels(members, taken, num_documents, options, where)
    notes.insert(0, f"{vectors.where}: {vectors.dtype} {list(vectors.shape)}, padded")

    def documents() -> Iterator[np.ndarray]:
        if mask is not None:
            return _masked_documents(vectors, mask)
        return _shortened_documents(vectors, lengths)

    return ArraySource(kind, dim, num_documents, notes, documents, labels)


def _padded_lengths(counts: RowArray, num_documents: int, num_tokens: int) -> np.ndarray:
    if counts.shape != (num_documents,) or counts.dtype.kind not in "iu":
        raise SourceError(
            f"{counts.where}: lengths must be integers [{num_documents}], but they are {counts.dtype} "
            f"{list(counts.shape)}"
        )
    lengths = counts.read()
    wrong = np.flatnonzero((lengths < 0) | (lengths > num_tokens))
    if len(wrong):
        row = int(wrong[0])
        raise SourceError(
            f"{counts.where}: row {row} is {lengths[row]}, but the array has {num_tokens} tokens per document"
        )
    return lengths


def _masked_documents(vectors: RowArray, mask: RowArray) -> Iterator[np.ndarray]:
    """Yields for each document its tokens whose mask is 1. SourceError: a mask value is not 0 or 1. If a document's
    tokens are adjacent, the array is a view of the block that was read."""
    rows = block_rows(vectors.shape, vectors.dtype)
    first_row = 0
    for block, mask_block in zip(vectors.blocks(rows), mask.blocks(rows)):
        kept = mask_block == 1
        wrong = np.argwhere((mask_block != 0) & ~kept)
        if len(wrong):
            row, token = map(int, wrong[0])
            raise SourceError(
                f"{mask.where}: row {first_row + row}, token {token} is {mask_block[row, token]}; a mask holds 1 for "
                "tokens that count and 0 for padding (of an additive mask, with 0 and -inf, save mask == 0)"
            )
        first_row += len(block)
        counts = kept.sum(axis=1)
        firsts = kept.argmax(axis=1)
        lasts = kept.shape[1] - kept[:, ::-1].argmax(axis=1)
        for row, document in enumerate(as_vectors(block)):
            count, first, last = int(counts[row]), int(firsts[row]), int(lasts[row])
            if count == 0:
                yield document[:0]
            else:
                yield document[first:last] if last - first == count else document[kept[row]]


def _shortened_documents(vectors: RowArray, lengths: Optional[np.ndarray]) -> Iterator[np.ndarray]:
    row = 0
    for block in vectors.blocks(block_rows(vectors.shape, vectors.dtype)):
        for document in as_vectors(block):
            yield document if lengths is None else document[: int(lengths[row])]
            row += 1


def _open_ragged(
    kind: str, where: str, members: Mapping[str, RowArray], name: str, options: ImportOptions
) -> ArraySource:
    """Opens rows of different lengths, [tokens * dim] values each."""
    vectors = members[name]
    if options.mask is not None or options.lengths is not None:
        raise SourceError(f"--mask, --lengths: leave them out; {vectors.where} has rows of different lengths")
    if options.dim is None:
        raise SourceError(f"{vectors.where}: has rows of tokens * dim values; give --dim")
    dim = check_columns("--dim", options.dim)
    labels, notes = open_labels(members, [name], vectors.shape[0], options, where)
    notes.insert(0, f"{vectors.where}: {vectors.shape[0]} rows of tokens * {dim} values")

    def documents() -> Iterator[np.ndarray]:
        row = 0
        for block in vectors.blocks():
            for values in block:
                array = np.asarray(values)
                if not is_float(array.dtype) or array.ndim != 1 or array.size % dim:
                    raise SourceError(
                        f"{vectors.where}: row {row} is {array.dtype} {list(array.shape)}; must be floating-point "
                        f"values, a multiple of {dim} of them"
                    )
                row += 1
                yield as_vectors(array.reshape(-1, dim))

    return ArraySource(kind, dim, vectors.shape[0], notes, documents, labels)


class _NameLabels(NumberLabels):
    """Labels whose ids are the names of arrays."""

    def __init__(self, names: List[str]) -> None:
        super().__init__(len(names))
        self._names = names

    def __iter__(self) -> Iterator[Tuple[str, None]]:
        for name in self._names:
            yield name, None


def _open_separate(kind: str, where: str, members: Mapping[str, RowArray], options: ImportOptions) -> ArraySource:
    """Opens one array [tokens, dim] per document. Its name is the document's id."""
    for option in ("lengths", "mask", "id_column", "ids", "payload_columns"):
        if getattr(options, option):
            flag = "--" + option.replace("_", "-")
            raise SourceError(f"{flag}: {where} has an array for each document, whose name is the id")
    names = list(members)
    dim = check_columns(members[names[0]].where, members[names[0]].shape[1], options.dim)
    for member in members.values():
        if member.shape[1] != dim:
            raise SourceError(f"{member.where}: {member.shape[1]} columns, but those before it have {dim}")

    def documents() -> Iterator[np.ndarray]:
        return (as_vectors(members[name].read()) for name in names)

    notes = [f"{where}: an array for each of {len(names)} documents, whose name is the id"]
    return ArraySource(kind, dim, len(names), notes, documents, _NameLabels(names))

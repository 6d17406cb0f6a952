"""Reads tensors of token vectors in Vespa's JSON. They have one or more mapped dimensions for tokens, and an indexed
one for columns.

Supports the forms in Vespa's reference, "Document JSON format": short and verbose ones, with and without the type,
and cell values as numbers or as hexadecimal digits."""

from __future__ import annotations

import collections
import math
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from maxsim.bfloat16 import widen_bfloat16
from maxsim.collection.limits import MAX_DOCUMENT_TOKENS
from maxsim.importers.readers.rows import as_vectors, check_columns
from maxsim.importers.source import SourceError

# The big-endian type of each cell type in hexadecimal digits.
_HEX_TYPES = {"int8": ">i1", "bfloat16": ">u2", "float": ">f4", "double": ">f8"}
_CELL_TYPES = {np.dtype(code).itemsize: name for name, code in _HEX_TYPES.items()}
_FORM_KEYS = frozenset({"type", "cells", "blocks", "values"})

_TYPE = re.compile(r"tensor(?:<(\w+)>)?\((.*)\)")
_DIMENSION = re.compile(r"(\w+)(?:\{\}|\[([0-9]{0,18})\])")

# Sizes of the indexed dimensions of a dense part; None is an unknown size.
Sizes = Tuple[Optional[int], ...]


class TensorType(NamedTuple):
    """The type of a tensor. cell: a name in _HEX_TYPES. mapped and indexed: dimensions in alphabetical order, which is
    the order of the values. The last indexed dimension is the columns of a token vector."""

    cell: str
    mapped: Tuple[str, ...]
    indexed: Tuple[Tuple[str, Optional[int]], ...]

    @property
    def dim(self) -> Optional[int]:
        return self.indexed[-1][1] if self.indexed else None


def parse_type(text: object, where: str) -> TensorType:
    match = _TYPE.fullmatch(str(text).replace(" ", ""))
    cell = (match[1] or "double") if match else ""
    parts = [_DIMENSION.fullmatch(part) for part in match[2].split(",")] if match and match[2] else []
    if match is None or cell not in _HEX_TYPES or not all(parts):
        raise SourceError(f"{where}: type {str(text)!r:.80} is not a tensor type of Vespa")
    dimensions = sorted((part[1], part[2]) for part in parts if part is not None)
    mapped = tuple(name for name, size in dimensions if size is None)
    indexed = tuple((name, int(size) if size else None) for name, size in dimensions if size is not None)
    return TensorType(cell, mapped, indexed)


def is_vectors(value: object) -> bool:
    """Returns whether the JSON may be a tensor with the token vectors of a document."""
    if isinstance(value, dict) and value and set(value) <= _FORM_KEYS:
        if "type" in value:
            try:
                tensor_type = parse_type(value["type"], "")
            except SourceError:
                return False
            return bool(tensor_type.indexed) and len(tensor_type.mapped) + len(tensor_type.indexed) >= 2
        return "blocks" in value or isinstance(value.get("values"), list)
    if isinstance(value, dict) and value:
        first = next(iter(value.values()))
        return isinstance(first, list) or (isinstance(first, str) and bool(re.fullmatch(r"(?:[0-9A-Fa-f]{2})+", first)))
    if isinstance(value, list) and value:
        return isinstance(value[0], list) or (isinstance(value[0], dict) and "address" in value[0])
    return False


class TensorReader:
    """Reads the tensors of one field. dim: the number of columns of a token vector in the result, if the user gives
    it. With unpack_bits, an int8 cell becomes eight columns of 0 or 1, the highest bit first, like Vespa's
    unpack_bits."""

    def __init__(self, dim: Optional[int], unpack_bits: bool) -> None:
        self.dim = dim
        self._unpack_bits = unpack_bits
        # The cell type of the last tensor that named its type. The notes of the import show it.
        self.cell: Optional[str] = None

    def read(self, value: Any, where: str) -> np.ndarray:
        """Returns the token vectors [tokens, dim]. If all labels are numbers, tokens are in the order of the labels,
        and otherwise in the order of the JSON."""
        tensor_type: Optional[TensorType] = None
        content = value
        form = ""
        if isinstance(value, dict) and value and set(value) <= _FORM_KEYS:
            if "type" in value:
                tensor_type = parse_type(value["type"], where)
                self.cell = tensor_type.cell
            forms = [key for key in ("blocks", "values", "cells") if key in value]
            if len(forms) != 1:
                raise SourceError(
                    f"{where}: has {' and '.join(forms) or 'none'} of blocks, values and cells; one is needed"
                )
            form = forms[0]
            content = value[form]
        vectors = self._unpacked(self._content(content, form, tensor_type, where), where)
        if self.dim is None and len(vectors):
            self.dim = vectors.shape[1]
        if len(vectors) and vectors.shape[1] != self.dim:
            raise SourceError(f"{where}: has token vectors of {vectors.shape[1]} columns; must have {self.dim}")
        return vectors

    def _content(self, content: Any, form: str, tensor_type: Optional[TensorType], where: str) -> np.ndarray:
        if isinstance(content, dict) and form != "cells":
            keys: List[Tuple[str, ...]] = [(label,) for label in content]
            return self._blocks(keys, list(content.values()), tensor_type, where)
        if isinstance(content, list) and content and isinstance(content[0], dict):
            try:
                addresses = [entry["address"] for entry in content]
                if form != "blocks" and "value" in content[0]:
                    return _cells(addresses, [entry["value"] for entry in content], tensor_type, where)
                names = sorted(addresses[0]) if tensor_type is None else tensor_type.mapped
                keys = [tuple(str(address[name]) for name in names) for address in addresses]
                return self._blocks(keys, [entry["values"] for entry in content], tensor_type, where)
            except (KeyError, TypeError, AttributeError) as error:
                raise SourceError(f"{where}: is not a tensor: an entry lacks {error}") from None
        if isinstance(content, (list, str)):
            if tensor_type is not None and tensor_type.mapped:
                raise SourceError(f"{where}: has values without labels of {', '.join(tensor_type.mapped)}")
            sizes = (None, self._columns(None)) if tensor_type is None else self._sizes(tensor_type)
            return self._values(content, tensor_type, where, sizes)
        raise SourceError(f"{where}: holds {content!r:.60}, not a tensor of token vectors")

    def _columns(self, tensor_type: Optional[TensorType]) -> Optional[int]:
        """Returns the number of cells of a token vector, if the type or the user gives it."""
        if tensor_type is not None and tensor_type.dim is not None:
            return tensor_type.dim
        return self.dim // 8 if self.dim is not None and self._unpack_bits else self.dim

    def _sizes(self, tensor_type: TensorType) -> Sizes:
        """Returns the sizes of a dense part; the last one is the number of columns."""
        return (*(size for _, size in tensor_type.indexed[:-1]), self._columns(tensor_type))

    def _blocks(
        self, keys: Sequence[Tuple[str, ...]], blocks: Sequence[Any], tensor_type: Optional[TensorType], where: str
    ) -> np.ndarray:
        if not blocks:
            return np.empty((0, 0), np.float32)
        if tensor_type is not None and len(keys[0]) != len(tensor_type.mapped):
            raise SourceError(f"{where}: has labels of 1 dimension, but its type has {len(tensor_type.mapped)}")
        if len(set(keys)) < len(keys):
            label = collections.Counter(keys).most_common(1)[0][0]
            raise SourceError(f"{where}: has two blocks of the label {', '.join(label)!r:.80}")
        sizes = self._block_sizes(blocks[0]) if tensor_type is None else self._sizes(tensor_type)
        return np.concatenate([self._values(blocks[index], tensor_type, where, sizes) for index in _order(keys)])

    def _block_sizes(self, block: Any) -> Sizes:
        """Returns the sizes of `block`, which all blocks of a tensor without a type share. A block is one token vector,
        or a list of token vectors."""
        columns = self._columns(None)
        if isinstance(block, list) and block and isinstance(block[0], list):
            return len(block), columns if columns is not None else len(block[0])
        return (columns if columns is not None or isinstance(block, str) else len(block),)

    def _values(self, values: Any, tensor_type: Optional[TensorType], where: str, sizes: Sizes) -> np.ndarray:
        """Returns the cells of one block as rows [n, sizes[-1]]. `values` are nested lists, a flat list or hexadecimal
        digits."""
        columns = sizes[-1]
        if isinstance(values, str):
            array = self._hex_values(values, tensor_type, where, columns)
        else:
            try:
                array = np.array(values, dtype=np.float32)
            except (TypeError, ValueError):
                raise SourceError(f"{where}: holds {values!r:.60}; must be numbers in lists of one length") from None
            if columns is None and array.ndim > 1:
                columns = array.shape[-1]
        if columns is None:
            raise SourceError(f"{where}: does not say the columns of a token vector: no type, no lists; give --dim")
        if not _fits(array.shape, (*sizes[:-1], columns)):
            wanted = ", ".join("any" if size is None else str(size) for size in (*sizes[:-1], columns))
            hint = "" if tensor_type is not None or len(sizes) > 1 else "; several token vectors in one need a type"
            raise SourceError(
                f"{where}: has values {list(array.shape)}; must be rows of {columns} columns: [{wanted}]{hint}"
            )
        return array.reshape(-1, columns)

    def _hex_values(
        self, digits: str, tensor_type: Optional[TensorType], where: str, columns: Optional[int]
    ) -> np.ndarray:
        try:
            data = bytes.fromhex(digits)
        except ValueError:
            raise SourceError(f"{where}: holds {digits!r:.60}; must be hexadecimal digits") from None
        cell = tensor_type.cell if tensor_type is not None else "int8" if self._unpack_bits else None
        if cell is None:
            # Without a type, the number of digits per token vector gives the width of a cell.
            width = len(data) // columns if columns else 0
            cell = _CELL_TYPES.get(width)
            if cell is None or not columns or len(data) != width * columns:
                raise SourceError(
                    f"{where}: has {len(digits)} hexadecimal digits and no type; give --dim, "
                    f"so that a token vector has 2, 4, 8 or 16 digits a column"
                )
        self.cell = cell
        if len(data) % np.dtype(_HEX_TYPES[cell]).itemsize:
            raise SourceError(f"{where}: has {len(digits)} hexadecimal digits, which are not whole {cell} cells")
        values = np.frombuffer(data, _HEX_TYPES[cell])
        if cell == "bfloat16":
            return widen_bfloat16(values)
        return values.astype(np.float32) if cell == "int8" else as_vectors(values)

    def _unpacked(self, vectors: np.ndarray, where: str) -> np.ndarray:
        if not self._unpack_bits:
            return vectors
        cells = vectors.astype(np.int8)
        if not np.array_equal(cells, vectors):
            raise SourceError(f"{where}: --unpack-bits needs int8 cells, but there is {vectors[cells != vectors][0]}")
        return np.unpackbits(cells.view(np.uint8), axis=1).astype(np.float32)


def _fits(shape: Tuple[int, ...], sizes: Sizes) -> bool:
    """Returns whether values of `shape` fill a block of `sizes`: either `shape` equals `sizes`, or the values are flat.
    A size that is None may be any number; flat values must then be a multiple of the known sizes."""
    if 0 in sizes:
        return False
    if len(shape) == len(sizes) and len(sizes) > 1:
        return all(size in (None, length) for size, length in zip(sizes, shape))
    known = math.prod(size for size in sizes if size is not None)
    return len(shape) == 1 and (shape[0] % known == 0 if None in sizes else shape[0] == known)


def _order(keys: Sequence[Tuple[str, ...]]) -> List[int]:
    """Returns the indices of `keys` in the order of the tokens: ascending if all labels are numbers, and otherwise
    unchanged."""
    if all(label.isascii() and label.isdecimal() for key in keys for label in key):
        return sorted(range(len(keys)), key=lambda index: tuple(map(_number_order, keys[index])))
    return list(range(len(keys)))


def _number_order(digits: str) -> Tuple[int, str]:
    """Returns a sort key for a number of any number of digits. int() takes quadratic time for long ones, and refuses
    them."""
    digits = digits.lstrip("0")
    return len(digits), digits


def _cells(
    addresses: Sequence[Dict[str, Any]], values: Sequence[Any], tensor_type: Optional[TensorType], where: str
) -> np.ndarray:
    """Reads the verbose form, which has one object per cell. Cells that are left out are 0."""
    if tensor_type is None or tensor_type.dim is None:
        raise SourceError(f"{where}: has cells without a type, which says what dimension the columns are")
    dim = check_columns(where, tensor_type.dim)
    outer = [*tensor_type.mapped, *(name for name, _ in tensor_type.indexed[:-1])]
    column = tensor_type.indexed[-1][0]
    rows: Dict[Tuple[str, ...], np.ndarray] = {}
    for address, value in zip(addresses, values):
        key = tuple(str(address[name]) for name in outer)
        for label, (name, size) in zip(key[len(tensor_type.mapped) :], tensor_type.indexed[:-1]):
            if not label.isdecimal() or (size is not None and not _number_order(label) < _number_order(str(size))):
                raise SourceError(f"{where}: cell {address!r:.80} is outside of {name}[{size or ''}]")
        row = rows.get(key)
        if row is None:
            if len(rows) == MAX_DOCUMENT_TOKENS:
                raise SourceError(f"{where}: has more than {MAX_DOCUMENT_TOKENS} token vectors, which is the limit")
            row = rows[key] = np.zeros(dim, np.float32)
        try:
            index = int(address[column])
            if not 0 <= index < dim:
                raise IndexError
            row[index] = value
        except (ValueError, IndexError, TypeError, OverflowError):
            raise SourceError(f"{where}: cell {address!r:.80} is not a number at 0 to {dim - 1}") from None
    keys = list(rows)
    return np.stack([rows[keys[index]] for index in _order(keys)])

"""The kind `milvus`: a collection of Milvus or Milvus Lite, read with pymilvus. Milvus documents two layouts for
multi-vectors, and both are read: an array of structs with one vector each (from Milvus 2.6.4 on), or one entity per
token, which has the document's id and the token's position in separate fields."""

# pyright: reportMissingImports=false
from __future__ import annotations

import contextlib
import logging
import os
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np
from pymilvus import DataType, MilvusClient

from maxsim.collection.errors import quote_id
from maxsim.importers.databases.milvus_tokens import TokenEntities, VectorField
from maxsim.importers.readers.opening import check_folder, check_regular
from maxsim.importers.readers.rows import check_columns
from maxsim.importers.source import (
    ALL_COLUMNS,
    ImportOptions,
    Source,
    SourceDocument,
    SourceError,
    check_options,
    note_left,
)

# The environment variable of Milvus for a server's user and password, or key.
_TOKEN_VARIABLE = "MILVUS_TOKEN"
_DOCUMENTS_AT_ONCE = 64
_VECTOR_TYPES = {DataType.FLOAT_VECTOR: "f32", DataType.FLOAT16_VECTOR: "f16", DataType.BFLOAT16_VECTOR: "bf16"}
# The names of the fields of token entities in Milvus' guides.
_DOCUMENT_FIELD = "doc_id"
_TOKEN_FIELD = "seq_id"

# A query: its filter, the fields to read and the number of entities per answer. Yields entities in the order of their
# primary keys.
Query = Callable[[str, Sequence[str], int], Iterator[List[Dict[str, Any]]]]


def open_source(path: str, options: ImportOptions) -> Source:
    """Opens the collection that --table names, or the only one. `path` is the address of a server (its token comes
    from MILVUS_TOKEN) or a Milvus Lite database.

    --vectors-column names a vector field, or the vector of an array of structs as FIELD or FIELD[VECTOR]. If there is
    one entity per token, --id-column is the field of the document's id (default doc_id), and --token-column that of
    the token's position (default seq_id). Without positions, tokens are in the order of the primary keys. A
    document's payload is that of its first token."""
    takes = ("table", "vectors_column", "id_column", "token_column", "payload_columns")
    check_options("milvus", options, takes)
    if "://" not in path:
        if not os.path.exists(path):
            raise SourceError(f"{path}: no such file or folder")
        # Milvus Lite opens the files itself. Version 2 uses one file, version 3 a folder of files.
        check_folder(path) if os.path.isdir(path) else check_regular(path)
    with _errors_of(path):
        client = MilvusClient(path, token=os.environ.get(_TOKEN_VARIABLE, ""))
        names = list(client.list_collections())
    name = options.table if options.table is not None or len(names) != 1 else names[0]
    if name not in names:
        raise SourceError(f"{path}: give --table, one of {', '.join(names) or 'none'}")
    where = f"{path}: collection {name}"
    with _errors_of(where):
        fields: List[Dict[str, Any]] = client.describe_collection(name)["fields"]
        # Milvus can query entities only while the collection is loaded into its memory.
        client.load_collection(name)

    def query(expression: str, names: Sequence[str], at_once: int) -> Iterator[List[Dict[str, Any]]]:
        with _errors_of(where):
            iterator = client.query_iterator(
                name, batch_size=at_once, filter=expression, output_fields=list(names), consistency_level="Strong"
            )
        try:
            while True:
                with _errors_of(where):
                    entities = list(iterator.next())
                if not entities:
                    return
                yield entities
        finally:
            iterator.close()

    structs, vectors = _vector_fields(where, fields)
    chosen = _choose(where, [*structs, *vectors], options.vectors_column)
    if chosen in structs:
        if options.token_column is not None:
            raise SourceError(f"--token-column: {where}: {chosen} holds all tokens of a document")
        with _errors_of(where):
            count = client.query(name, filter="", output_fields=["count(*)"], consistency_level="Strong")
        return _StructSource(where, fields, structs[chosen], int(count[0]["count(*)"]), query, options)
    return _TokenSource(where, fields, vectors[chosen], query, options)


@contextlib.contextmanager
def _errors_of(where: str) -> Iterator[None]:
    """Turns exceptions of pymilvus and Milvus Lite into an error of one line. (pymilvus also logs them, with a
    traceback.)"""
    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    except (SourceError, ModuleNotFoundError):
        raise
    except Exception as error:
        raise SourceError(f"{where}: {getattr(error, 'message', None) or error}") from None
    finally:
        logging.disable(disabled)


def _vector_fields(
    where: str, fields: Sequence[Mapping[str, Any]]
) -> Tuple[Dict[str, VectorField], Dict[str, VectorField]]:
    """Returns the vectors in arrays of structs, as FIELD[VECTOR], and the fields that hold one vector."""
    structs: Dict[str, VectorField] = {}
    vectors: Dict[str, VectorField] = {}
    for field in fields:
        if field["type"] in _VECTOR_TYPES:
            vectors[field["name"]] = _vector_field(where, str(field["name"]), field)
        for inner in field.get("struct_fields", ()):
            if inner["type"] in _VECTOR_TYPES:
                name = f"{field['name']}[{inner['name']}]"
                structs[name] = _vector_field(where, name, inner)
    return structs, vectors


def _vector_field(where: str, name: str, field: Mapping[str, Any]) -> VectorField:
    dim = check_columns(f"{where}: field {name!r}", int(field["params"]["dim"]))
    return VectorField(name, dim, _VECTOR_TYPES[DataType(field["type"])])


def _choose(where: str, names: List[str], name: Optional[str]) -> str:
    candidates = [known for known in names if name in (None, known, known.split("[")[0])]
    # An array of structs is a multi-vector. A single vector beside it represents the whole document, and is not used.
    if name is None and any("[" in known for known in candidates):
        candidates = [known for known in candidates if "[" in known]
    if len(candidates) != 1:
        raise SourceError(f"{where}: give --vectors-column, one of {', '.join(names) or 'none'}")
    return candidates[0]


def _primary(fields: Sequence[Mapping[str, Any]]) -> str:
    return next(str(field["name"]) for field in fields if field.get("is_primary"))


def _payload_fields(
    where: str, fields: Sequence[Mapping[str, Any]], options: ImportOptions, taken: Sequence[str]
) -> List[str]:
    """Returns the fields to ask for. "*" includes fields that are not in the schema."""
    if options.payload_columns == ALL_COLUMNS:
        return ["*"]
    for name in options.payload_columns:
        if name in taken:
            raise SourceError(f"{where}: field {name!r} is not a payload: it holds ids or vectors")
    return list(options.payload_columns)


def _note_left(fields: Sequence[Mapping[str, Any]], options: ImportOptions, taken: Sequence[str]) -> List[str]:
    """Returns a note on the schema's fields that are not imported. Fields outside the schema are unknown before they
    are read."""
    if options.payload_columns == ALL_COLUMNS:
        return []
    taken = (*taken, *options.payload_columns)
    return note_left([str(field["name"]) for field in fields if field["name"] not in taken], "field")


def _payload(entity: Mapping[str, Any], options: ImportOptions, left_out: Sequence[str]) -> Optional[Dict[str, Any]]:
    names: Sequence[str] = options.payload_columns
    if options.payload_columns == ALL_COLUMNS:
        names = [name for name in entity if name not in left_out]
    return {name: entity[name] for name in names if name in entity} or None


class _StructSource:
    """One entity per document. Its tokens are the elements of an array of structs."""

    kind = "milvus"

    def __init__(
        self,
        where: str,
        fields: Sequence[Mapping[str, Any]],
        vectors: VectorField,
        num_documents: int,
        query: Query,
        options: ImportOptions,
    ) -> None:
        self.dim = vectors.dim
        self.num_documents: Optional[int] = num_documents
        self._where = where
        self._vectors = vectors
        self._field, self._member = vectors.name[:-1].split("[")
        self._id = options.id_column or _primary(fields)
        self._query = query
        self._options = options
        self._left_out = [
            field["name"] for field in fields if field["type"] in _VECTOR_TYPES or "struct_fields" in field
        ]
        self._columns = _payload_fields(where, fields, options, (self._id, self._field))
        self.notes: Sequence[str] = [
            f"{where}: array of structs {self._field}, vector {self._member}, {vectors.dim} columns",
            f"ids: field {self._id!r}",
            *_note_left(fields, options, (self._id, *self._left_out)),
        ]

    def __iter__(self) -> Iterator[SourceDocument]:
        names = list(dict.fromkeys([self._id, self._field, *self._columns]))
        for entities in self._query("", names, _DOCUMENTS_AT_ONCE):
            for entity in entities:
                yield self._document(entity)

    def _document(self, entity: Mapping[str, Any]) -> SourceDocument:
        id = entity.get(self._id)
        if id is None:
            raise SourceError(f"{self._where}: an entity has no {self._id!r}")
        vectors = np.empty((0, self.dim), np.float32)
        structs = entity.get(self._field) or []
        if structs:
            where = f"{self._where}: entity {quote_id(id)}"
            vectors = np.stack([self._vectors.read(struct[self._member], where) for struct in structs])
        return SourceDocument(id, vectors, _payload(entity, self._options, (self._id, *self._left_out)))


class _TokenSource:
    """One entity per token."""

    kind = "milvus"

    def __init__(
        self,
        where: str,
        fields: Sequence[Mapping[str, Any]],
        vectors: VectorField,
        query: Query,
        options: ImportOptions,
    ) -> None:
        names = [field["name"] for field in fields]
        self.dim = vectors.dim
        self._id = _named(where, names, options.id_column, _DOCUMENT_FIELD, "--id-column")
        if self._id is None:
            raise SourceError(
                f"{where}: {vectors.name} holds one vector; if entities are tokens, give the field of the "
                f"document's id with --id-column: {', '.join(names)}"
            )
        self._token = _named(where, names, options.token_column, _TOKEN_FIELD, "--token-column")
        self._options = options
        taken = (self._id, self._token, _primary(fields), *(f["name"] for f in fields if f["type"] in _VECTOR_TYPES))
        self._taken = [name for name in taken if name is not None]
        columns = _payload_fields(where, fields, options, self._taken)
        self._entities = TokenEntities(where, query, self._id, self._token, vectors, columns)
        self.num_documents: Optional[int] = self._entities.num_documents
        order = f"field {self._token!r}" if self._token else "the primary keys"
        self.notes: Sequence[str] = [
            f"{where}: {self._entities.num_tokens:,} entities, one a token: vector {vectors.name}, "
            f"{vectors.dim} columns",
            f"ids: field {self._id!r}; the order of tokens: {order}",
            *_note_left(fields, options, self._taken),
        ]

    def __iter__(self) -> Iterator[SourceDocument]:
        for id, vectors, first in self._entities.documents():
            yield SourceDocument(id, vectors, _payload(first, self._options, self._taken))


def _named(where: str, names: Sequence[str], name: Optional[str], usual: str, flag: str) -> Optional[str]:
    if name is not None and name not in names:
        raise SourceError(f"{where}: {flag} {name}: there is no such field; there are {', '.join(names)}")
    return name if name is not None else usual if usual in names else None

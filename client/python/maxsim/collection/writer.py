"""Writes a collection's next generation, a document at a time."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any, Optional, Union

import numpy as np

import maxsim

from .batch import Layout
from .code_files import encode_shard, need_factors
from .codes import PLANE_COUNTS, CodesFormat
from .encoder import encoder_identity
from .errors import CollectionError, ShapeError, quote, quote_id
from .field_files import write_fields
from .fields import Field, FieldReader, parse_fields
from .folder import OutputFolder
from .ids import encode_id, format_id
from .limits import (
    DEFAULT_MAX_SHARD_BYTES,
    MAX_DIM,
    MAX_DOCUMENT_TOKENS,
    MAX_ROTATION_SEED,
    MIN_DIM,
    MIN_MAX_SHARD_BYTES,
    VALUE_BYTES,
)
from .loss import QuantizationLoss
from .manifest import Manifest, ShardEntry, check_name, read_manifest
from .payloads import encode_payload
from .pending import Documents, PendingDocuments, packed_parts, token_rows
from .quantize import Quantizer
from .shards import Shards
from .storing import Storing
from .workers import Workers, in_pool

Id = Union[str, int]
IdAndVectors = Union[tuple[Id, Any], tuple[Id, Any, Optional[Mapping[str, Any]]]]


@dataclass(frozen=True)
class Summary:
    """What was published."""

    folder: Path
    name: str
    generation: int
    dim: int
    storage: str
    id_type: str
    has_payloads: bool
    num_documents: int
    num_tokens: int
    num_bytes: int  # The shard files have so many together.
    num_shards: int
    loss: QuantizationLoss = QuantizationLoss()  # The lossy tokens, with "i8".


class CollectionWriter:
    """Writes documents into a collection's folder and publishes them as its next generation.

        with CollectionWriter("docs", dim=128, storage="i8") as writer:
            writer.add("doc-1", vectors, {"title": "..."})  # vectors: [tokens, dim]

    The files are those that `maxsim-shard build` writes for the same documents, byte for byte but for who made them and
    when. Documents are written as they come: in memory are some MiB, and 24 bytes of each document for finding ids that
    repeat. Nothing can be seen of a generation before `close` publishes it in one step; a writer that is left by an
    exception removes its files, and those of one whose process was killed are removed by the next writer, or build, of
    the folder. One writer at a time writes to a folder, and one thread at a time uses a writer.

    Arguments:
        folder: of the collection. It is created, or given the next generation when it holds a collection.
        dim: columns of a token vector, 8 to 4096.
        storage: "f32", "f16", "bf16" or "i8". None takes that of the collection in the folder; else "bf16" where the
            first document is bfloat16, and "f16" where it is not.
        name: of the collection. None takes that of the collection in the folder, or the folder's own name.
        encoder: what made the vectors, a mapping of "model", "dim" and more, or the path of a JSON file that holds one.
        max_shard_bytes: the largest shard file; a document that is larger has one of its own.
        codes: planes of the codes that are stored beside the vectors (docs/reference/formats.md): 1, 2 or 4; 0 for
            none. None takes as many as the collection in the folder has.
        fields: what requests can filter by, "NAME:KIND=PATH,NAME:KIND,...", for example
            "lang:keyword=meta.lang,year:integer": values that are read from the payloads (docs/reference/formats.md);
            "" for none. None takes those of the collection in the folder.
        rotation_seed: with "i8" or codes, the seed of the rotation, 0 to 2^53 - 1.
        num_threads: that convert, quantise and encode. None: one for each core.
        allow_other_shape: lets the generation differ from the one in the folder in its dimension or the type of its
            ids, or lack its payloads or one of its fields: requests that are made for that one will fail.
        refuse_lossy: with "i8", raises an error for a document in which a token becomes zeros, or loses more than
            a quarter of its length to rounding, because another token of the document is far longer. Without it, such
            tokens are only counted in Summary.loss.
        created_by: the program that the manifest names. None: this package and its version.

    Raises CollectionError for what the folder, an option or a document has wrong, and OSError for what the disk has.
    """

    def __init__(
        self,
        folder: Union[str, os.PathLike[str]],
        *,
        dim: int,
        storage: Optional[str] = None,
        name: Optional[str] = None,
        encoder: Union[Mapping[str, Any], str, os.PathLike[str], None] = None,
        max_shard_bytes: int = DEFAULT_MAX_SHARD_BYTES,
        codes: Optional[int] = None,
        fields: Optional[str] = None,
        rotation_seed: int = 0,
        num_threads: Optional[int] = None,
        allow_other_shape: bool = False,
        refuse_lossy: bool = False,
        created_by: Optional[str] = None,
    ) -> None:
        self._folder: Optional[OutputFolder] = None
        self._process = os.getpid()
        _check_integer("dim", dim, MIN_DIM, MAX_DIM)
        _check_integer("max_shard_bytes", max_shard_bytes, MIN_MAX_SHARD_BYTES, None)
        _check_integer("rotation_seed", rotation_seed, 0, MAX_ROTATION_SEED)
        if num_threads is not None:
            _check_integer("num_threads", num_threads, 1, None)
        if storage is not None and storage not in VALUE_BYTES:
            raise CollectionError(f"{quote(str(storage))}, f32, f16, bf16 or i8 is expected", field="storage")
        if codes is not None and (type(codes) is not int or codes not in (0, *PLANE_COUNTS)):
            raise CollectionError(f"{codes!r:.100}, 0, 1, 2 or 4 planes are expected", field="codes")
        if rotation_seed != 0 and storage not in (None, "i8") and not codes:
            raise CollectionError(
                f"{rotation_seed}: only i8 and codes are rotated, and the storage is {storage}", field="rotation_seed"
            )
        self._encoder = None if encoder is None else encoder_identity(encoder, dim)
        self._dim = dim
        self._storage = storage
        self._max_shard_bytes = max_shard_bytes
        self._codes = codes
        asked_fields = None if fields is None else parse_fields(fields)
        self._rotation_seed = rotation_seed
        self._workers = Workers(num_threads or _num_cores())
        self._allow_other_shape = allow_other_shape
        self._refuse_lossy = refuse_lossy
        self._created_by = created_by or f"maxsim {maxsim.__version__} (Python)"

        # This is what was published, also where an exception ended `close` afterwards.
        self.summary: Optional[Summary] = None
        self._closed = False
        self._num_added = 0
        # The first document decides what these are.
        self._layout: Optional[Layout] = None
        self._pending: Optional[PendingDocuments] = None
        self._storing: Optional[Storing] = None
        self._publishing: Optional[Summary] = None  # It becomes the summary once the manifest is in its place.
        self._folder = self._open_folder(Path(os.path.abspath(os.fspath(folder))))
        try:
            self._published = self._read_published()
            self._name = self._choose_name(name)
            if self._published is not None:
                self._check_shape("dimension", dim, self._published.dim)
            self._field_reader = FieldReader(self._choose_fields(asked_fields))
            self._generation = 1 if self._published is None else self._published.generation + 1
            self._folder.remove_leftovers()
        except BaseException:
            self.abort()
            raise

    # What a dry run does in another way.

    def _open_folder(self, folder: Path) -> OutputFolder:
        return OutputFolder(folder)

    def _read_published(self) -> Optional[Manifest]:
        assert self._folder is not None
        return read_manifest(self._folder.path)

    def _open_shards(self, layout: Layout) -> Shards:
        assert self._folder is not None
        return Shards(self._folder.path, self._generation, layout, self._max_shard_bytes)

    def _choose_name(self, name: Optional[str]) -> str:
        assert self._folder is not None
        if self._published is not None:
            if name is not None and name != self._published.name:
                raise CollectionError(
                    f"name: {self._folder.path} holds the collection {quote(self._published.name)}, not {quote(name)}; "
                    "choose another folder or that name"
                )
            return self._published.name
        if name is not None:
            return check_name(name)
        try:
            return check_name(os.path.basename(os.path.realpath(self._folder.path)))
        except CollectionError as error:
            raise CollectionError(f"{error.reason}; it is the folder's, as none was given", field=error.field) from None

    def _choose_fields(self, asked: Optional[tuple[Field, ...]]) -> tuple[Field, ...]:
        there = () if self._published is None else self._published.fields
        if asked is None:
            return there
        kinds = {field.name: field.kind for field in asked}
        for field in there:
            self._check_shape(f"field {quote(field.name)}", kinds.get(field.name, "none"), field.kind)
        return asked

    def _check_shape(self, what: str, here: Any, there: Any) -> None:
        """Checks that requests made for the published generation suit this one."""
        if here == there or self._allow_other_shape or self._published is None:
            return
        raise ShapeError(
            f"{what}: {here}, and generation {self._published.generation} of {quote(self._published.name)} in the "
            f"folder has {there}, which its clients expect"
        )

    def __enter__(self) -> CollectionWriter:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if kind is not None:
            self.abort()
        elif not self._closed:
            self.close()

    def __del__(self) -> None:
        # Half-made objects have no folder, and their constructor has said why.
        if getattr(self, "_folder", None) is not None and not getattr(self, "_closed", True):
            if self._process == os.getpid():
                warnings.warn(f"{self!r} was never closed: nothing is published", ResourceWarning, stacklevel=2)
                if in_pool():
                    # The garbage collector runs in any thread, and one of the writer's cannot wait for its own end.
                    threading.Thread(target=self.abort, name="maxsim-abort").start()
                else:
                    self.abort()

    def __repr__(self) -> str:
        path = str(self._folder.path) if self._folder is not None else "?"
        return f"CollectionWriter({path!r}, {self._num_added} documents)"

    @property
    def num_documents(self) -> int:
        """The documents that were added."""
        return self._num_added

    def add(self, id: Id, vectors: Any, payload: Optional[Mapping[str, Any]] = None) -> None:
        """Adds a document.

        `id` is a string (1 to 512 bytes as UTF-8) or a 64-bit integer, all of one kind. `vectors` [tokens, dim], at
        most 65,536 tokens, are an array of NumPy or torch, or whatever maxsim.token_vectors takes; they are copied.
        `payload` is a mapping that JSON can hold, at most 1 MiB of it; an empty one is none.

        CollectionError says what is wrong with this document, which is then not added, and the writer can go on. Values
        that are not finite or do not fit, and ids that repeat, are found for many documents at a time: that error,
        which names the document, may come with a later one or with `close`, and the writer cannot go on.
        """
        self._check_open()
        key = None
        try:
            key = encode_id(id)
            rows, data_type = token_rows(vectors, self._dim)
            text = encode_payload(payload)
            self._field_reader.read(payload)
            if self._pending is None:
                pending = self._begin(key, data_type)
            else:
                pending = self._pending
                self._check_id_type(key)
        except ShapeError:
            raise  # The document is as good as all others.
        except CollectionError as error:
            where = f"document {self._num_added}" + ("" if key is None else f", id {format_id(key)}")
            raise CollectionError(f"{where}: {error}") from None
        if not pending.has_room(rows, data_type):
            self._flush()
        pending.add(key, rows, data_type, text)
        self._num_added += 1

    def add_packed(
        self,
        ids: Sequence[Id],
        vectors: np.ndarray[Any, Any],
        lengths: Any,
        payloads: Optional[Sequence[Optional[Mapping[str, Any]]]] = None,
    ) -> None:
        """Adds documents whose vectors stand one after the other in `vectors` [sum of lengths, dim], float16 or
        float32: `lengths` [documents] are the tokens of each. It does what `add` does for each, in less time.

        `vectors` is not copied, and must not be written to before the writer is closed. CollectionError where an
        argument is not of that shape, or an id or payload is not as `add` wants it; then none of the documents is
        added.
        """
        self._check_open()
        given = np.asarray(lengths)
        if given.size > 0 and given.dtype.kind not in "iu":
            raise CollectionError(f"elements of {given.dtype}, integers are expected", field="lengths")
        counts = given.astype(np.int64)
        rows = np.ascontiguousarray(vectors)
        if rows.ndim != 2 or rows.shape[1] != self._dim or rows.dtype not in (np.float16, np.float32):
            raise CollectionError(
                f"vectors: {rows.dtype} {list(rows.shape)}, float16 or float32 [tokens, {self._dim}] is expected"
            )
        if counts.shape != (len(ids),) or (payloads is not None and len(payloads) != len(ids)):
            raise CollectionError(f"lengths, payloads: one for each of the {len(ids)} ids is expected")
        if len(ids) == 0:
            return
        if counts.min() < 1 or counts.max() > MAX_DOCUMENT_TOKENS or counts.sum() != len(rows):
            raise CollectionError(
                f"lengths: {counts.min()} .. {counts.max()}, {counts.sum()} in all; 1 .. {MAX_DOCUMENT_TOKENS} are "
                f"expected, and {len(rows)} in all, the rows of the vectors"
            )
        keys, texts = self._encode_labels(ids, payloads)
        data_type = "f16" if rows.dtype == np.float16 else "f32"
        pending = self._pending if self._pending is not None else self._begin(keys[0], data_type)
        self._check_id_type(keys[0])
        self._flush()
        for part, part_rows in packed_parts(counts, self._dim * rows.itemsize):
            documents = pending.pack(keys[part], rows[part_rows], data_type, counts[part].tolist(), texts[part])
            self._num_added += len(documents)
            self._store(documents)

    def _encode_labels(
        self, ids: Sequence[Id], payloads: Optional[Sequence[Optional[Mapping[str, Any]]]]
    ) -> tuple[list[Union[bytes, int]], list[bytes]]:
        keys: list[Union[bytes, int]] = []
        texts: list[bytes] = [b""] * len(ids)
        for index, id in enumerate(ids):
            is_id = False
            try:
                keys.append(encode_id(id))
                is_id = True
                if payloads is not None:
                    texts[index] = encode_payload(payloads[index])
                    self._field_reader.read(payloads[index])
                if isinstance(keys[-1], bytes) != isinstance(keys[0], bytes):
                    raise CollectionError("it is a string, and others are integers, or the other way round")
            except CollectionError as error:
                where = f"document {self._num_added + index}" + (f", id {quote_id(id)}" if is_id else "")
                raise CollectionError(f"{where}: {error}") from None
        return keys, texts

    def add_many(self, documents: Iterable[IdAndVectors]) -> None:
        """Adds documents, each (id, vectors) or (id, vectors, payload), one after the other."""
        for document in documents:
            if len(document) == 2:
                self.add(document[0], document[1])
            else:
                id, vectors, payload = document
                self.add(id, vectors, payload)

    def close(self) -> Summary:
        """Publishes the documents as the folder's next generation. On an error nothing is published, and nothing
        left; where an interrupt or a warning that is made an error comes later than that, `summary` is there."""
        try:
            self._check_open()
            return self._publish()
        finally:
            self.abort()

    def abort(self) -> None:
        """Ends without publishing, and removes what was written. Does nothing after `close`."""
        if self._closed or self._process != os.getpid():
            return
        self._closed = True
        # The last callback is called first, and each is, whatever those before it raise.
        with contextlib.ExitStack() as stack:
            if self._folder is not None:
                stack.callback(self._folder.release)
                stack.callback(self._remove_unpublished)
            stack.callback(self._workers.close)
            if self._storing is not None:
                stack.callback(self._storing.close)

    def _remove_unpublished(self) -> None:
        """Removes the files of a generation that is not published. The folder's manifest says whether it is."""
        if self.summary is not None:
            return
        assert self._folder is not None
        # Shards that a manifest which cannot be read may name are left.
        with contextlib.suppress(CollectionError, OSError):
            published = self._folder.remove_leftovers()
            if published is not None and self._publishing is not None:
                if published.generation == self._publishing.generation:
                    self.summary = self._publishing

    def _check_open(self) -> None:
        if self._closed:
            raise CollectionError("the writer is closed")
        if self._storing is not None and self._storing.failure is not None:
            raise CollectionError(f"the writer cannot go on after an error: {self._storing.failure}")
        if self._process != os.getpid():
            raise CollectionError(f"the writer belongs to process {self._process}, and this is {os.getpid()}")

    def _begin(self, key: Union[bytes, int], data_type: str) -> PendingDocuments:
        """Decides what the first document decides."""
        id_type = "string" if isinstance(key, bytes) else "int64"
        if self._published is not None:
            self._check_shape("type of ids", id_type, self._published.id_type)
        storage = self._storage
        if storage is None:
            storage = self._published.storage if self._published is not None else None
        if storage is None:
            storage = "bf16" if data_type == "bf16" else "f16"
        if self._rotation_seed != 0 and storage != "i8" and not self._codes:
            raise CollectionError(
                f"{self._rotation_seed}: only i8 and codes are rotated, and the storage is {storage}",
                field="rotation_seed",
            )
        self._layout = Layout(self._dim, storage, id_type, self._rotation_seed if storage == "i8" else 0)
        quantizer = Quantizer(self._dim, self._rotation_seed, self._workers) if storage == "i8" else None
        self._storing = Storing(self._open_shards(self._layout), quantizer, self._workers, self._refuse_lossy)
        self._pending = PendingDocuments(self._layout)
        return self._pending

    def _check_id_type(self, key: Union[bytes, int]) -> None:
        assert self._layout is not None
        if (self._layout.id_type == "string") != isinstance(key, bytes):
            kind = "a string" if isinstance(key, bytes) else "an integer"
            raise CollectionError(f"the id is {kind}, unlike those before it")

    def _flush(self) -> None:
        """Has the pending documents stored, in another thread, once those before them are."""
        if self._pending is None or len(self._pending) == 0:
            return
        self._store(self._pending.take())

    def _store(self, documents: Documents) -> None:
        assert self._storing is not None
        self._storing.store(documents)

    def _publish(self) -> Summary:
        assert self._folder is not None
        manifest = self._complete()
        self._publishing = summary = Summary(
            folder=self._folder.path,
            name=manifest.name,
            generation=manifest.generation,
            dim=manifest.dim,
            storage=manifest.storage,
            id_type=manifest.id_type,
            has_payloads=manifest.has_payloads,
            num_documents=manifest.num_documents,
            num_tokens=manifest.num_tokens,
            num_bytes=sum(shard.num_bytes for shard in manifest.shards),
            num_shards=len(manifest.shards),
            loss=QuantizationLoss() if self._storing is None else self._storing.loss,
        )
        self._folder.publish(manifest)
        self.summary = summary
        unsynchronised = self._folder.sync_published()
        if unsynchronised is None:
            self._folder.remove_old_generations(manifest, self._published)
        else:
            # The removal may reach the disk before the rename does: then the generation before it would need its files.
            warnings.warn(
                "the new generation is published, but a power failure now may bring back the one before: "
                f"{unsynchronised}",
                RuntimeWarning,
                stacklevel=3,
            )
        return summary

    def _complete(self) -> Manifest:
        """Completes the shards, and returns the manifest that names them."""
        self._flush()
        if self._num_added == 0 or self._layout is None or self._storing is None:
            raise CollectionError("there is no document to build from")
        self._storing.wait()
        shards = self._storing.shards
        if self._published is not None and self._published.has_payloads and not shards.has_payloads:
            self._check_shape("payloads", "none", "some")
        if self._field_reader.fields and not shards.has_payloads:
            raise CollectionError("no document has a payload, from which their values are read", field="fields")
        entries = self._write_fields(self._layout, shards.finish())
        codes, entries = self._encode(self._layout, entries)
        return Manifest(
            name=self._name,
            generation=self._generation,
            dim=self._dim,
            storage=self._layout.storage,
            rotation_seed=self._layout.rotation_seed,
            id_type=self._layout.id_type,
            has_payloads=shards.has_payloads,
            created_by=self._created_by,
            created_at=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            shards=entries,
            encoder=self._encoder,
            codes=codes,
            fields=self._field_reader.fields,
        )

    def _write_fields(self, layout: Layout, entries: list[ShardEntry]) -> list[ShardEntry]:
        """Writes the fields of the shards."""
        assert self._folder is not None
        fields, folder = self._field_reader.fields, self._folder.path
        if not fields:
            return entries
        return [
            replace(entry, fields=write_fields(folder, self._generation, index, layout, fields, entry))
            for index, entry in enumerate(entries)
        ]

    def _encode(self, layout: Layout, entries: list[ShardEntry]) -> tuple[Optional[CodesFormat], list[ShardEntry]]:
        """Writes the codes of the shards, which are made of the vectors as they are stored."""
        assert self._folder is not None
        planes, seed = self._codes, self._rotation_seed
        there = self._published.codes if self._published is not None else None
        if planes is None and there is not None:
            planes, seed = there.planes, there.rotation_seed
        if not planes:
            return None, entries
        folder = self._folder.path
        seed = layout.rotation_seed if layout.storage == "i8" else seed
        codes = CodesFormat(planes, need_factors(folder, layout, entries), seed)
        return codes, [
            replace(entry, codes=encode_shard(folder, self._generation, index, layout, codes, entry, self._workers))
            for index, entry in enumerate(entries)
        ]


def _num_cores() -> int:
    """Returns the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _check_integer(name: str, value: Any, low: int, high: Optional[int]) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise CollectionError(f"{value!r:.100}, an integer is expected", field=name)
    if value < low or (high is not None and value > high):
        limits = f"in {low} .. {high}" if high is not None else f"{low} or more"
        raise CollectionError(f"{value} is not {limits}", field=name)

"""Writes a collection's next generation, one document after another."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any, Optional, Union

import numpy as np

import maxsim

from .batch import Layout
from .code_files import encode_shards
from .codebook import Codebook
from .codes import CodesFormat
from .encoder import encoder_identity
from .errors import CollectionError, ShapeError
from .field_files import write_fields
from .fields import FieldReader, parse_fields
from .folder import OutputFolder
from .ids import encode_id, format_id
from .limits import DEFAULT_MAX_SHARD_BYTES, check_options, check_rotation_seed
from .loss import QuantizationLoss
from .manifest import Manifest, ShardEntry, read_manifest
from .payloads import encode_payload
from .pending import PendingDocuments, encode_labels, packed_parts, packed_rows, token_rows
from .predecessor import Predecessor
from .quantize import Quantizer
from .shards import Shards
from .storing import Storing
from .summary import Summary
from .workers import Workers, in_pool, num_cores

Id = Union[str, int]
IdAndVectors = Union[tuple[Id, Any], tuple[Id, Any, Optional[Mapping[str, Any]]]]


class CollectionWriter:
    """Writes documents into a collection's folder and publishes them as its next generation.

        with CollectionWriter("docs", dim=128, storage="i8") as writer:
            writer.add("doc-1", vectors, {"title": "..."})  # vectors: [tokens, dim]

    The files are byte for byte those that `maxsim-shard build` writes for the same documents, except for the
    manifest's program and time. Documents are written as they come: the writer holds some MiB in memory, and 24 bytes
    per document to find repeated ids. A generation becomes visible only when `close` publishes it, in one step. If an
    exception leaves the `with` block, the writer removes its files; if the process is killed, the next writer or build
    in the folder does. Only one writer at a time can write to a folder, and a writer is not thread-safe.

    Arguments:
        folder: of the collection. A new folder is created. A collection in it gets its next generation.
        dim: columns of a token vector, 8 to 4096.
        storage: "f32", "f16", "bf16" or "i8". None takes that of the collection in the folder. Without one, it is
            "bf16" if the first document is bfloat16, and otherwise "f16".
        codebook: writes a collection of residual codes (maxsim.collection.Codebook). The vectors of documents are
            then rows of codes, uint8, and the codebook decides the storage.
        name: of the collection. None takes that of the collection in the folder, or the folder's own name.
        encoder: what made the vectors: a mapping of "model", "dim" and more, or the path of a JSON file with one.
        max_shard_bytes: the largest size of a shard file. A document that is larger gets its own shard.
        codes: the number of planes of the codes that are stored beside the vectors (docs/reference/formats.md): 1, 2
            or 4, or 0 for no codes. None takes that of the collection in the folder.
        fields: values of the payloads that requests can filter by (docs/reference/formats.md), for example
            "lang:keyword=meta.lang,year:integer"; "" for no fields. None takes those of the collection in the folder.
        rotation_seed: with "i8" or codes, the seed of the rotation, 0 to 2^53 - 1.
        num_threads: the number of threads that convert, quantise and encode. None: one per core.
        allow_other_shape: permits the generation to have another dimension or type of ids than the one in the folder,
            or to lack its payloads or one of its fields. Requests that rely on these will then fail.
        refuse_lossy: with "i8", raises an error for a document in which a token vector becomes all zeros, or loses
            more than a quarter of its length to rounding, because another token of the document is far longer.
            Without it, such tokens are only counted in Summary.loss.
        created_by: the program's name in the manifest. None: this package and its version.

    CollectionError: the folder, an option or a document is wrong. OSError: the disk failed.
    """

    def __init__(
        self,
        folder: Union[str, os.PathLike[str]],
        *,
        dim: int,
        storage: Optional[str] = None,
        codebook: Optional[Codebook] = None,
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
        check_options(dim, storage, max_shard_bytes, codes, rotation_seed, num_threads)
        self._encoder = None if encoder is None else encoder_identity(encoder, dim)
        self._dim = dim
        self._storage = storage
        self._codebook = codebook
        if codebook is not None:
            codebook.check_options(dim, storage, codes)
            self._storage = codebook.storage
        self._max_shard_bytes = max_shard_bytes
        self._codes = codes
        asked_fields = None if fields is None else parse_fields(fields)
        self._rotation_seed = rotation_seed
        self._workers = Workers(num_threads or num_cores())
        self._refuse_lossy = refuse_lossy
        self._created_by = created_by or f"maxsim {maxsim.__version__} (Python)"

        # The summary of the published generation. It is set even if an exception ended `close` after publishing.
        self.summary: Optional[Summary] = None
        self._closed = False
        self._num_added = 0
        # Set by the first document.
        self._layout: Optional[Layout] = None
        self._pending: Optional[PendingDocuments] = None
        self._storing: Optional[Storing] = None
        self._publishing: Optional[Summary] = None  # becomes `summary` when the manifest has been renamed
        self._folder = self._open_folder(Path(os.path.abspath(os.fspath(folder))))
        try:
            self._before = Predecessor(self._read_published(), allow_other_shape)
            self._name = self._choose_name(name)
            self._before.check_dim(dim)
            self._field_reader = FieldReader(self._before.choose_fields(asked_fields))
            self._folder.remove_leftovers()
        except BaseException:
            self.abort()
            raise

    # DryRunWriter overrides these methods.

    def _open_folder(self, folder: Path) -> OutputFolder:
        return OutputFolder(folder)

    def _read_published(self) -> Optional[Manifest]:
        assert self._folder is not None
        return read_manifest(self._folder.path)

    def _open_shards(self, layout: Layout) -> Shards:
        assert self._folder is not None
        return Shards(self._folder.path, self._before.next_generation, layout, self._max_shard_bytes)

    def _choose_name(self, name: Optional[str]) -> str:
        assert self._folder is not None
        return self._before.choose_name(self._folder.path, name)

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
        # If the constructor has raised, there is no folder to clean up.
        if getattr(self, "_folder", None) is not None and not getattr(self, "_closed", True):
            if self._process == os.getpid():
                warnings.warn(f"{self!r} was never closed: nothing is published", ResourceWarning, stacklevel=2)
                if in_pool():
                    # The garbage collector may run in a thread of the writer, which cannot wait for its own end.
                    threading.Thread(target=self.abort, name="maxsim-abort").start()
                else:
                    self.abort()

    def __repr__(self) -> str:
        path = str(self._folder.path) if self._folder is not None else "?"
        return f"CollectionWriter({path!r}, {self._num_added} documents)"

    @property
    def num_documents(self) -> int:
        """The number of documents added so far."""
        return self._num_added

    def add(self, id: Id, vectors: Any, payload: Optional[Mapping[str, Any]] = None) -> None:
        """Adds a document.

        `id` is a string (1 to 512 bytes in UTF-8) or a 64-bit integer; all ids are of the same kind. `vectors`
        [tokens, dim], with at most 65,536 tokens, is an array of NumPy or torch, or anything else that
        maxsim.token_vectors takes. It is copied. `payload` is a mapping that JSON can hold, in at most 1 MiB.

        CollectionError: the document is wrong. It was not added, and the writer can go on. But values that are not
        finite or do not fit, and repeated ids, are found for many documents together: this error names the document,
        may come from a later call or from `close`, and ends the writer.
        """
        self._check_open()
        key = None
        try:
            key = encode_id(id)
            rows, data_type = token_rows(vectors, self._dim, self._codebook)
            text = encode_payload(payload)
            self._field_reader.read(payload)
            if self._pending is None:
                pending = self._begin(key, data_type)
            else:
                pending = self._pending
                self._check_id_type(key)
        except ShapeError:
            raise  # The document itself is valid.
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
        """Adds documents whose vectors follow one another in `vectors` [sum of lengths, dim], float16 or float32.
        `lengths` [documents] are their numbers of tokens. Does the same as `add` for each document, in less time.

        `vectors` is not copied, so do not change it before the writer is closed. CollectionError: an argument has
        another shape, or `add` would refuse an id or a payload. No document was added.
        """
        self._check_open()
        num_payloads = len(ids) if payloads is None else len(payloads)
        rows, counts = packed_rows(vectors, lengths, self._dim, self._codebook, len(ids), num_payloads)
        if len(ids) == 0:
            return
        keys, texts = encode_labels(ids, payloads, self._field_reader, self._num_added)
        data_type = "f16" if rows.dtype == np.float16 else "f32"
        if self._codebook is not None:
            data_type = self._codebook.storage
        pending = self._pending if self._pending is not None else self._begin(keys[0], data_type)
        self._check_id_type(keys[0])
        self._flush()
        for part, part_rows in packed_parts(counts, rows.shape[1] * rows.itemsize):
            documents = pending.pack(keys[part], rows[part_rows], data_type, counts[part].tolist(), texts[part])
            self._num_added += len(documents)
            assert self._storing is not None
            self._storing.store(documents)

    def add_many(self, documents: Iterable[IdAndVectors]) -> None:
        """Adds documents, each (id, vectors) or (id, vectors, payload), one after another."""
        for document in documents:
            id, vectors, *rest = document
            self.add(id, vectors, rest[0] if rest else None)

    def close(self) -> Summary:
        """Publishes the documents as the folder's next generation. If this fails, nothing is published and no file
        remains. If an interrupt or a warning that raises comes after publishing, `summary` is set."""
        try:
            self._check_open()
            return self._publish()
        finally:
            self.abort()

    def abort(self) -> None:
        """Ends without publishing, and removes the files. Does nothing after `close`."""
        if self._closed or self._process != os.getpid():
            return
        self._closed = True
        # Runs every callback, the last one first, even if others raise.
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
        # If the manifest cannot be read, shards stay, because it may name them.
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
            raise CollectionError(f"the writer belongs to process {self._process}, but this is {os.getpid()}")

    def _begin(self, key: Union[bytes, int], data_type: str) -> PendingDocuments:
        """Sets what depends on the first document: storage, layout and type of ids."""
        id_type = "string" if isinstance(key, bytes) else "int64"
        self._before.check_id_type(id_type)
        storage = self._before.choose_storage(self._storage, data_type)
        check_rotation_seed(self._rotation_seed, storage, self._codes)
        seed = self._rotation_seed if storage == "i8" else 0
        self._layout = Layout(self._dim, storage, id_type, seed, self._codebook)
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
        """Stores the pending documents in another thread, after the previous ones are stored."""
        if self._pending is None or len(self._pending) == 0:
            return
        assert self._storing is not None
        self._storing.store(self._pending.take())

    def _publish(self) -> Summary:
        assert self._folder is not None
        manifest = self._complete()
        loss = QuantizationLoss() if self._storing is None else self._storing.loss
        self._publishing = summary = Summary.of(self._folder.path, manifest, loss)
        self._folder.publish(manifest)
        self.summary = summary
        unsynchronised = self._folder.sync_published()
        if unsynchronised is None:
            self._folder.remove_old_generations(manifest, self._before.manifest)
        else:
            # Keeps the old generations' files: their removal could reach the disk before the manifest's rename.
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
        self._before.check_payloads(shards.has_payloads)
        if self._field_reader.fields and not shards.has_payloads:
            raise CollectionError("no document has a payload, from which their values are read", field="fields")
        entries = self._write_fields(self._layout, shards.finish())
        codes, entries = self._encode(self._layout, entries)
        return Manifest(
            name=self._name,
            generation=self._before.next_generation,
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
            num_centroids=0 if self._codebook is None else len(self._codebook.centroids),
        )

    def _write_fields(self, layout: Layout, entries: list[ShardEntry]) -> list[ShardEntry]:
        """Writes the fields of the shards."""
        assert self._folder is not None
        fields, folder = self._field_reader.fields, self._folder.path
        if not fields:
            return entries
        return [
            replace(entry, fields=write_fields(folder, self._before.next_generation, index, layout, fields, entry))
            for index, entry in enumerate(entries)
        ]

    def _encode(self, layout: Layout, entries: list[ShardEntry]) -> tuple[Optional[CodesFormat], list[ShardEntry]]:
        """Writes the codes of the shards. They are computed from the stored vectors."""
        assert self._folder is not None
        if layout.codebook is not None:
            return None, entries
        planes, seed = self._before.choose_codes(self._codes, self._rotation_seed)
        if planes == 0:
            return None, entries
        seed = layout.rotation_seed if layout.storage == "i8" else seed
        return encode_shards(
            self._folder.path, self._before.next_generation, layout, entries, planes, seed, self._workers
        )

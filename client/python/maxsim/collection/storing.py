"""Stores documents in another thread while the caller adds more."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Optional

from .errors import CollectionError
from .ids import Duplicate, SeenIds, format_id
from .loss import QuantizationLoss
from .pending import Documents
from .quantize import Quantizer
from .shards import Shards
from .workers import Workers, make_pool


class Storing:
    """Receives documents, and stores them in shards in another thread.

    That thread refers to this object but not to the writer. So a writer that its user drops while documents are stored
    is garbage-collected, and ended, in the user's thread. Methods are not thread-safe.
    """

    def __init__(
        self, shards: Shards, quantizer: Optional[Quantizer], workers: Workers, refuse_lossy: bool = False
    ) -> None:
        self.shards = shards
        self.failure: Optional[BaseException] = None  # After a failure, nothing more can be stored.
        self.loss = QuantizationLoss()  # of all stored documents
        self._refuse_lossy = refuse_lossy
        self._quantizer = quantizer
        self._workers = workers
        self._seen = SeenIds()
        self._future: Optional[Future[None]] = None
        self._pool = make_pool(1, "maxsim-store")

    def store(self, documents: Documents) -> None:
        """Waits until the previous documents are stored, and then starts to store `documents`. Raises the error of the
        previous ones."""
        self.wait()
        self._future = self._pool.submit(self._store, documents)

    def wait(self) -> None:
        """Waits until all documents that `store` received are stored."""
        future, self._future = self._future, None
        if future is None:
            return
        try:
            future.result()
        except BaseException as error:
            self.failure = error
            raise

    def _store(self, documents: Documents) -> None:
        try:
            self._seen.add(documents.id_keys(), documents.first_document)
        except Duplicate as duplicate:
            raise CollectionError(
                f"document {documents.first_document + duplicate.index}: id "
                f"{format_id(documents.ids[duplicate.index])} is already the id of document {duplicate.earlier}"
            ) from None
        if documents.payload_bytes > 0 and not self.shards.has_payloads:
            self.shards.begin_payloads()
        batch = documents.encode(self._workers, self._quantizer)
        if self._refuse_lossy:
            documents.check_loss()
        self.loss += documents.loss
        self.shards.store(batch)

    def close(self) -> None:
        """Waits for documents that are being stored, and ends the threads."""
        try:
            self._pool.shutdown(wait=True, cancel_futures=True)
        finally:
            self.shards.close()

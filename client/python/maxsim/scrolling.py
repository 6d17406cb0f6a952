"""The pages of Client.scroll: makes the requests, and reads the answers. Makes no calls itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from . import arguments
from .documents import StoredDocument, read_document
from .filters import FilterLike, fill_filter
from .requests import Id
from .retries import Retry
from .v1 import documents_pb2
from .writes import required_collection

MAX_SCROLL_DOCUMENTS = 1000  # of one page
DEFAULT_PAGE_SIZE = 100


def waiting(retry: Retry) -> Retry:
    """Returns `retry`, but with RESOURCE_EXHAUSTED retried. For scroll and delete_matching: the server runs only a few
    such calls at a time, and tells other clients when to try again. After an error, the caller could not continue the
    iterator or the half-done delete."""
    return dataclasses.replace(retry, resource_exhausted=True)


class ScrollPages:
    """Makes the request for each page until there are no more."""

    def __init__(
        self,
        collection: str,
        filter: FilterLike | None,
        after: Id | None,
        page_size: int,
        payloads: bool,
        return_tokens: bool,
        min_sequence: int | None,
    ) -> None:
        self._request = request = documents_pb2.ScrollRequest(
            collection=required_collection(collection),
            limit=arguments.whole_number(page_size, "page_size", 1, MAX_SCROLL_DOCUMENTS),
            return_payloads=arguments.flag(payloads, "payloads"),
            return_tokens=arguments.flag(return_tokens, "return_tokens"),
            min_sequence=arguments.sequence(min_sequence, "min_sequence"),
        )
        fill_filter(request, filter)
        if isinstance(after, str):
            request.after_string_id = arguments.text(after, "after")
        elif after is not None:
            number = arguments.integer(after)
            if number is None or not -(2**63) <= number < 2**63:
                raise ValueError(f"after is {arguments.shown(after)}; must be a string, an integer of 64 bits or None")
            request.after_int_id = number
        self._has_more = True

    def next_request(self) -> documents_pb2.ScrollRequest | None:
        """Returns the request for the next page, or None after the last one."""
        return self._request if self._has_more else None

    def take(self, page: documents_pb2.ScrollResponse) -> Iterator[StoredDocument]:
        """Returns the documents of a page."""
        self._has_more = page.has_more and bool(page.documents)
        if self._has_more:
            last = page.documents[-1]
            if last.WhichOneof("id") == "string_id":
                self._request.after_string_id = last.string_id
            else:
                self._request.after_int_id = last.int_id
        return map(read_document, page.documents)

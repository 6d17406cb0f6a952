"""Streams JSON values from a file: one per line, one after another, or the elements of an array."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import json
from typing import IO, Iterator

from maxsim.importers.readers.opening import open_regular
from maxsim.importers.source import SourceError
from maxsim.unique_json import unique_keys

# Bytes that are read in one step.
_READ_BYTES = 1 << 20
# The longest value, in characters. A document of 65,536 tokens of 128 columns, each of 12 digits, has 100 million.
_MAX_VALUE = 256 << 20

_SPACE = " \t\r\n"


class _Text:
    """The part of a file that has been read but not yet parsed."""

    def __init__(self, path: str, file: IO[bytes]) -> None:
        self.path = path
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._read_bytes = _READ_BYTES
        self.rest = ""
        self.at = 0
        self.used = 0
        self.is_whole = False

    def read(self) -> None:
        """Reads more. While a value is incomplete, each read is twice as long as the last, so that a long value is
        not parsed often."""
        try:
            data = self._file.read(self._read_bytes)
            text = self._decoder.decode(data, final=not data)
        except (OSError, EOFError, UnicodeDecodeError) as error:
            raise SourceError(f"{self.path}: cannot be read to its end: {error}") from None
        self.is_whole = not data
        self.used += self.at
        self.rest = self.rest[self.at :] + text
        self.at = 0

    def next_char(self) -> str:
        """Returns the next character that is not white space, without consuming it. "" at the end."""
        while True:
            while self.at < len(self.rest) and self.rest[self.at] in _SPACE:
                self.at += 1
            if self.at < len(self.rest):
                return self.rest[self.at]
            if self.is_whole:
                return ""
            self.read()

    def take_value(self, decoder: json.JSONDecoder) -> object:
        self._read_bytes = _READ_BYTES
        while True:
            try:
                value, end = decoder.raw_decode(self.rest, self.at)
            except RecursionError:
                raise SourceError(
                    f"{self.path}: JSON at character {self.used + self.at} is nested too deeply"
                ) from None
            except ValueError as error:
                if not isinstance(error, json.JSONDecodeError):  # More text cannot repair a repeated key.
                    position = self.used + self.at
                    raise SourceError(f"{self.path}: JSON at character {position}: {error}") from None
                self._read_bytes *= 2
                is_long = len(self.rest) - self.at > _MAX_VALUE
                if self.is_whole or is_long:
                    reason = f"a value of more than {_MAX_VALUE} characters, or" if is_long else ""
                    position = self.used + getattr(error, "pos", self.at)
                    raise SourceError(f"{self.path}: {reason} no JSON at character {position}: {error}") from None
                self.read()
                continue
            # A number or word at the end of the text may continue in the next part.
            if end == len(self.rest) and not self.is_whole:
                self.read()
                continue
            self.at = end
            return value


def json_values(path: str) -> Iterator[object]:
    """Yields the values of the file `path`, which is unpacked if it ends in .gz. An array at the top level yields its
    elements."""
    decoder = json.JSONDecoder(object_pairs_hook=unique_keys)
    with open_regular(path) as raw, gzip.open(raw) if path.endswith(".gz") else contextlib.nullcontext(raw) as file:
        text = _Text(path, file)  # type: ignore[arg-type]
        is_array = text.next_char() == "["
        if is_array:
            text.at += 1
        while True:
            char = text.next_char()
            if is_array and char == ",":
                text.at += 1
                continue
            if is_array and char == "]":
                text.at += 1
                if text.next_char():
                    raise SourceError(f"{path}: continues after its array, at character {text.used + text.at}")
                return
            if not char:
                if is_array:
                    raise SourceError(f"{path}: ends inside its array")
                return
            yield text.take_value(decoder)

"""Shows the progress of a command: as a bar on a terminal, and otherwise as a line every ten seconds."""

from __future__ import annotations

import sys
import time
from typing import Optional, TextIO

# Seconds between updates on a terminal, and between lines in a log.
_BAR_INTERVAL = 0.2
_LINE_INTERVAL = 10.0
_BAR_COLUMNS = 30


class ProgressLine:
    """Shows the documents and tokens of an import on standard error. Call it after each document, and call finish()
    at the end."""

    def __init__(self, stream: Optional[TextIO] = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._is_terminal = self._stream.isatty()
        self._interval = _BAR_INTERVAL if self._is_terminal else _LINE_INTERVAL
        # The time of the first document: opening the source, which may take long, must not count towards the rate.
        self._begin = self._shown_at = -1.0
        self._shown_columns = 0

    def __call__(self, documents: int, total: Optional[int], tokens: int) -> None:
        now = time.monotonic()
        if self._begin < 0:
            self._begin = self._shown_at = now
        if now - self._shown_at < self._interval:
            return
        self._shown_at = now
        rate = documents / max(now - self._begin, 1e-9)
        text = f"{documents:,}"
        if total:
            text += f" of {total:,}"
        text += f" documents, {tokens:,} tokens, {rate:,.0f} documents/s"
        if not self._is_terminal:
            self._stream.write(text + "\n")
        else:
            if total:
                filled = min(_BAR_COLUMNS, documents * _BAR_COLUMNS // total)
                text = "[" + "#" * filled + " " * (_BAR_COLUMNS - filled) + "] " + text
            self._stream.write("\r" + text.ljust(self._shown_columns))
            self._shown_columns = len(text)
        self._stream.flush()

    def finish(self) -> None:
        """Removes the progress bar, so that the next output begins on a clean line."""
        if self._shown_columns:
            self._stream.write("\r" + " " * self._shown_columns + "\r")
            self._stream.flush()
            self._shown_columns = 0

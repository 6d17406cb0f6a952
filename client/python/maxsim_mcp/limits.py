"""Bounds of what a tool takes and returns. They keep an answer small enough for the context of a language model, and
the tools' schemas state them."""

from __future__ import annotations

MAX_QUERY_CHARS = 4000
MAX_NAME_CHARS = 256  # a collection's name
MAX_ID_CHARS = 1024
MAX_FILTER_CHARS = 2000
DEFAULT_TOP_K = 5
MAX_TOP_K = 20
DEFAULT_TEXT_CHARS = 600
MAX_TEXT_CHARS = 2000  # of the text of one document

# For the members of a payload other than title and text. MAX_VALUE_CHARS is the limit of a string, and of the title.
MAX_FIELDS = 12
MAX_FIELD_ITEMS = 10
MAX_VALUE_CHARS = 200
MAX_FIELDS_CHARS = 1000  # of all these members of one document

MAX_MATCHES = 64  # query tokens that `explain` returns
CONTEXT_TOKENS = 3  # document tokens before and after the matched one
MAX_CONTEXT_CHARS = 120

MAX_COLLECTIONS = 50
MAX_DECLARED_FIELDS = 20  # of one collection

"""The error of a collection that cannot be written."""


class CollectionError(ValueError):
    """Says what is wrong with a document, an option or the folder: the field, its value and the limit.

    `field` is the option that is wrong, such as "name", where the error knows it, and otherwise empty. `reason` is what
    is wrong with it; the message is both. Errors of the disk (no space, no permission) are OSErrors.
    """

    def __init__(self, reason: str, *, field: str = "") -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason


class ShapeError(CollectionError):
    """The generation would differ from the one in the folder in what the clients of that one expect. `remedy` is what
    permits it, as the caller's user writes it; `reason` is the message without it."""

    def __init__(self, reason: str, remedy: str = "allow_other_shape") -> None:
        super().__init__(f"{reason}; choose another folder, or {remedy}")
        self.reason = reason


def quote(text: str, longest: int = 200) -> str:
    """Returns `text` in quotation marks, for a message: control characters escaped, and cut when it is long."""
    shown = text if len(text) <= longest else text[:longest] + "..."
    if shown.isprintable():
        return f'"{shown}"'
    return '"' + "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in shown) + '"'


def quote_id(id: object) -> str:
    """Returns an id, or what was given for one, for a message: a string in quotation marks, an integer as it is."""
    if isinstance(id, str):
        return quote(id)
    # The text of a container may be far longer than what is shown of it.
    is_short = id is None or isinstance(id, (int, float, bytes))
    return f"{id!r:.200}" if is_short else f"a {type(id).__name__}"

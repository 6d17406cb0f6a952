"""Errors of writing a collection."""


class CollectionError(ValueError):
    """Says what is wrong with a document, an option or the folder: the field, its value and the limit.

    `field` is the wrong option, such as "name", or "" if the error does not know it. `reason` says what is wrong with
    it. The message has both. Errors of the disk (no space, no permission) are OSErrors.
    """

    def __init__(self, reason: str, *, field: str = "") -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason


class ShapeError(CollectionError):
    """The next generation would differ from the published one in a property on which clients of the published one rely.
    `remedy` says how to permit this, in terms of the program or function that the user calls. `reason` is the message
    without the remedy."""

    def __init__(self, reason: str, remedy: str = "allow_other_shape") -> None:
        super().__init__(f"{reason}; choose another folder, or {remedy}")
        self.reason = reason


def quote(text: str, longest: int = 200) -> str:
    """Returns `text` for a message: in quotation marks, with control characters escaped, and cut if it is long."""
    shown = text if len(text) <= longest else text[:longest] + "..."
    if shown.isprintable():
        return f'"{shown}"'
    return '"' + "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in shown) + '"'


def quote_id(id: object) -> str:
    """Returns an id for a message: a string in quotation marks, an integer as it is. The id may be of a wrong
    type."""
    if isinstance(id, str):
        return quote(id)
    # Shows only the type of a container, because its text may be very long.
    is_short = id is None or isinstance(id, (int, float, bytes))
    return f"{id!r:.200}" if is_short else f"a {type(id).__name__}"

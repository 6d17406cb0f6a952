"""The error of a collection that cannot be written."""


class CollectionError(ValueError):
    """Says what is wrong with a document, an option or the folder: the field, its value and the limit.

    Errors of the disk (no space, no permission) are OSErrors.
    """


def quote(text: str, longest: int = 200) -> str:
    """Returns `text` in quotation marks, for a message: control characters escaped, and cut when it is long."""
    shown = text if len(text) <= longest else text[:longest] + "..."
    return '"' + "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in shown) + '"'

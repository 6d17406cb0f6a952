"""Loads complete pickles, including those in NumPy arrays, with the interpreter of unpickling.py."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from maxsim.importers.readers.npy_header import read_npy_header
from maxsim.importers.readers.opening import open_regular
from maxsim.importers.readers.unpickling import Buffer, Unpickler
from maxsim.importers.source import SourceError


def load_pickle(data: Buffer, where: str) -> object:
    """Returns the value of the pickle `data`. `where` names its file in errors."""
    try:
        return Unpickler(data).load()
    except SourceError as error:
        raise SourceError(f"{where}: {error}") from None


def load_object_array(path: str) -> Sequence[object]:
    """Returns the elements of an array of objects that numpy.save wrote, such as a list of arrays."""
    with open_regular(path, "rb") as file:
        shape, _, dtype = read_npy_header(file, path)
        if not dtype.hasobject or len(shape) != 1:
            raise SourceError(f"{path}: holds {dtype} of shape {list(shape)}; must be a list of arrays")
        data = file.read()
    loaded = load_pickle(data, path)
    if not isinstance(loaded, np.ndarray) or loaded.shape != shape:
        raise SourceError(f"{path}: its content is not what its header says")
    return list(loaded)

"""The kinds that `maxsim import` knows. A kind's module and the libraries that it needs are imported only when the
kind is used."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
from typing import Iterator, Mapping, Tuple

from maxsim.importers.readers.guarded import guarded
from maxsim.importers.source import ImportOptions, Source, SourceError


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of source. module: its module in maxsim.importers. summary: what it reads, for --help. libraries: the
    packages that it imports. requirements: the packages to install for it, as in the extra `import-EXTRA` of this
    distribution."""

    module: str
    summary: str
    libraries: Tuple[str, ...] = ()
    extra: str = ""
    requirements: Tuple[str, ...] = ()


_ARROW = ("pyarrow>=15",)

KINDS: Mapping[str, Kind] = {
    "plaid": Kind("indexes.plaid", "index folder of fast-plaid, PyLate or NextPlaid"),
    "colbert": Kind("indexes.colbert", "index folder of colbert-ai or RAGatouille"),
    "byaldi": Kind("indexes.byaldi", "index folder of byaldi"),
    "pt": Kind("indexes.pt", "file of torch.save: a list of tensors, or a dictionary from ids to tensors"),
    "parquet": Kind("tables.parquet", "Parquet file, or a folder of them", ("pyarrow",), "arrow", _ARROW),
    "arrow": Kind(
        "tables.arrow", "Arrow IPC file or stream, Feather file, or a folder of them", ("pyarrow",), "arrow", _ARROW
    ),
    "datasets": Kind("tables.datasets", "folder of datasets' save_to_disk", ("pyarrow",), "arrow", _ARROW),
    "hdf5": Kind("arrays.hdf5", "HDF5 file", ("h5py",), "hdf5", ("h5py>=3.8",)),
    "zarr": Kind("arrays.zarr", "Zarr store of version 2 or 3", ("zarr",), "zarr", ("zarr>=2.16",)),
    "padded": Kind("arrays.padded", "padded array [N, L, dim] with a mask or lengths: npy, npz, safetensors, pt"),
    "npy": Kind("arrays.npy", "NumPy array of packed token vectors with lengths, or a folder of arrays"),
    "npz": Kind("arrays.npz", "NumPy archive of packed or padded vectors, or an array a document"),
    "qdrant": Kind(
        "databases.qdrant",
        "collection of Qdrant: a server's URL or a local folder",
        ("qdrant_client",),
        "qdrant",
        ("qdrant-client>=1.10",),
    ),
    "lancedb": Kind("tables.lancedb", "table of LanceDB", ("lancedb", "pyarrow"), "lancedb", ("lancedb>=0.20", *_ARROW)),
    "milvus": Kind(
        "databases.milvus",
        "collection of Milvus or Milvus Lite",
        ("pymilvus", "milvus_lite"),
        "milvus",
        ("pymilvus[milvus-lite]>=2.6",),
    ),
    "vespa": Kind("databases.vespa", "JSON of vespa visit, /document/v1 or a feed"),
}


@contextlib.contextmanager
def libraries_of(name: str) -> Iterator[None]:
    """If the body imports a library of the kind `name` that is not installed, raises an error that says what to
    install."""
    kind = KINDS[name]
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if missing not in kind.libraries:
            raise
        wanted = " ".join(f"'{requirement}'" for requirement in kind.requirements)
        raise SourceError(f"{name}: needs {missing}, which is not installed: pip install {wanted}") from None


def open_source(name: str, path: str, options: ImportOptions) -> Source:
    """Opens `path`, a path or an address, as a source of the kind `name`."""
    if name not in KINDS:
        raise SourceError(f"kind {name!r}: must be one of {', '.join(KINDS)}")
    with libraries_of(name):
        module = importlib.import_module(f"maxsim.importers.{KINDS[name].module}")
        return guarded(lambda: module.open_source(path, options), path)

"""Creates the requests of the Admin service."""

from __future__ import annotations

from typing import Literal, TypeAlias

from . import arguments
from .v1 import admin_pb2
from .v1 import rerank_pb2 as pb

Storage: TypeAlias = Literal["f16", "bf16", "f32", "i8"]
IdType: TypeAlias = Literal["string", "int64"]

_STORAGES = {
    "f16": pb.DATA_TYPE_F16,
    "bf16": pb.DATA_TYPE_BF16,
    "f32": pb.DATA_TYPE_F32,
    "i8": pb.DATA_TYPE_I8,
}
_FIELD_KINDS = {
    "keyword": pb.FIELD_KIND_KEYWORD,
    "keywords": pb.FIELD_KIND_KEYWORDS,
    "integer": pb.FIELD_KIND_INTEGER,
    "number": pb.FIELD_KIND_NUMBER,
    "boolean": pb.FIELD_KIND_BOOLEAN,
    "time": pb.FIELD_KIND_TIME,
}
_ID_TYPES = {"string": pb.ID_TYPE_STRING, "int64": pb.ID_TYPE_INT64}


def make_load_request(
    name: str, path: str, residency: str, replicate: bool, live: bool
) -> admin_pb2.LoadCollectionRequest:
    return admin_pb2.LoadCollectionRequest(
        name=arguments.text(name, "name"),
        path=arguments.text(path, "path"),
        residency=arguments.text(residency, "residency"),
        replicate=arguments.flag(replicate, "replicate"),
        live=arguments.flag(live, "live"),
    )


def make_create_request(
    name: str,
    dim: int,
    path: str,
    storage: str,
    id_type: str,
    residency: str,
    replicate: bool,
    encoder: pb.EncoderInfo | None,
    codes: int,
    code_factors: bool,
    fields: str,
) -> admin_pb2.CreateCollectionRequest:
    if encoder is not None and not isinstance(encoder, pb.EncoderInfo):
        raise ValueError(f"encoder is {arguments.shown(encoder)}; must be an EncoderInfo, like info().encoder, or None")
    return admin_pb2.CreateCollectionRequest(
        name=arguments.text(name, "name"),
        path=arguments.text(path, "path"),
        dim=arguments.whole_number(dim, "dim", 1, arguments.MAX_DIM),
        storage=arguments.named(storage, "storage", _STORAGES),
        id_type=arguments.named(id_type, "id_type", _ID_TYPES),
        residency=arguments.text(residency, "residency"),
        replicate=arguments.flag(replicate, "replicate"),
        encoder=encoder,
        code_planes=_code_planes(codes),
        code_factors=arguments.flag(code_factors, "code_factors"),
        fields=_declarations(arguments.text(fields, "fields")),
    )


def _declarations(text: str) -> list[pb.FieldDeclaration]:
    """Parses "NAME:KIND=PATH,NAME:KIND,...". The server checks whether the declarations are valid."""
    declarations = []
    for part in text.split(",") if text else []:
        name, _, rest = part.partition(":")
        kind, _, path = rest.partition("=")
        if kind not in _FIELD_KINDS:
            raise ValueError(
                f"fields: {arguments.shown(part)} is not NAME:KIND or NAME:KIND=PATH, where KIND is one of "
                f"{', '.join(_FIELD_KINDS)}"
            )
        declarations.append(pb.FieldDeclaration(name=name, kind=_FIELD_KINDS[kind], path=path))
    return declarations


def _code_planes(codes: int) -> int:
    if type(codes) is not int or codes not in (0, 1, 2, 4):
        raise ValueError(f"codes is {arguments.shown(codes)}; must be 0, 1, 2 or 4 planes")
    return codes


def make_snapshot_request(name: str, path: str) -> admin_pb2.SnapshotCollectionRequest:
    return admin_pb2.SnapshotCollectionRequest(name=arguments.text(name, "name"), path=arguments.text(path, "path"))

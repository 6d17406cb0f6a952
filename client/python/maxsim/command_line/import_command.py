"""`maxsim import`: makes a collection from another library's files."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import TYPE_CHECKING, List, Tuple

from maxsim.collection import CollectionError, ShapeError
from maxsim.collection.manifest import check_name
from maxsim.command_line.printable import printable
from maxsim.command_line.progress import ProgressLine
from maxsim.importers import ALL_COLUMNS, KINDS, STORAGES, ImportOptions, ImportReport, OptionError, import_collection

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_DESCRIPTION = """\
Makes a collection of what another library wrote. Everything is checked while it is read; a collection is there when the
command ends with 0, and nothing is otherwise. See docs/use/import.md.
"""


def _columns(text: str) -> Tuple[str, ...]:
    """An argparse type: names separated by commas, or * for all."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"must be names with commas between them, is {text!r}")
    return ALL_COLUMNS if names == ("*",) else names


def _name(text: str) -> str:
    """An argparse type: the name of a collection."""
    try:
        return check_name(text)
    except CollectionError as error:
        raise argparse.ArgumentTypeError(error.reason) from None


def add_parser(commands: _Commands) -> None:
    kinds = "\n".join(f"  {name:10}{kind.summary}" for name, kind in KINDS.items())
    parser = commands.add_parser(
        "import",
        help="make a collection of what another library wrote",
        description=_DESCRIPTION,
        epilog=f"kinds:\n{kinds}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--from", dest="kind", required=True, choices=list(KINDS), metavar="KIND", help="what PATH is")
    parser.add_argument("path", metavar="PATH", help="file, folder or address of the source")
    parser.add_argument("--output", metavar="DIR", help="folder of the collection; not needed with --dry-run")
    parser.add_argument(
        "--storage",
        choices=STORAGES,
        help="type of the stored vectors; residual keeps the codes of an index of plaid or colbert as they are "
        "(default: that of the collection in DIR, or f16)",
    )
    parser.add_argument(
        "--codes",
        type=int,
        choices=(0, 1, 2, 4),
        help="planes of the codes that are stored beside the vectors (default: as the collection in DIR has them, or 0)",
    )
    parser.add_argument(
        "--fields",
        metavar="FIELDS",
        help="values of the payloads that requests can filter by, NAME:KIND=PATH,NAME:KIND and so on: "
        "lang:keyword=meta.lang,year:integer; KIND is keyword, keywords, integer, number, boolean or time; none: no "
        "fields (default: as the collection in DIR has them)",
    )
    parser.add_argument(
        "--name", type=_name, help="name of the collection (default: that of the collection in DIR, or DIR's own)"
    )
    parser.add_argument(
        "--allow-other-shape",
        action="store_true",
        help="let it differ from the collection in DIR in its dimension, its type of ids, or by lacking payloads",
    )
    parser.add_argument(
        "--refuse-lossy",
        action="store_true",
        help="with i8: fail for a document with a token that becomes zeros or mostly rounding error",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="read and check everything, say what is there, and write nothing"
    )
    parser.add_argument("--skip-empty", action="store_true", help="leave out documents that have no token vector")
    parser.add_argument("--quiet", action="store_true", help="say nothing of the progress")
    options = parser.add_argument_group("what the source looks like", "A kind refuses those that it does not take.")
    options.add_argument("--id-column", metavar="NAME", help="column that holds the ids")
    options.add_argument("--vectors-column", metavar="NAME", help="column that holds the token vectors")
    options.add_argument(
        "--payload-columns",
        metavar="NAMES",
        type=_columns,
        default=(),
        help="columns that go into the payload: a,b,c or * (default: all of plaid, colbert and byaldi and of the lines "
        "of --ids; none of other kinds)",
    )
    options.add_argument("--lengths", metavar="NAME", help="column or file of the number of tokens of each document")
    options.add_argument("--mask", metavar="NAME", help="column or file of the mask of the tokens that count")
    options.add_argument("--table", metavar="NAME", help="table, collection or group inside the source")
    options.add_argument("--split", metavar="NAME", help="part of a data set, such as train")
    options.add_argument(
        "--ids", metavar="FILE", help="file with a line for each document: its id, or JSON with id and payload"
    )
    options.add_argument(
        "--payloads", metavar="FILE", help="file of the documents' texts or data, apart from the source"
    )
    options.add_argument(
        "--dim", metavar="N", type=int, help="columns of a token vector, where a row holds tokens * dim"
    )
    options.add_argument(
        "--token-column", metavar="NAME", help="column of a token's position, where a row holds one token"
    )
    options.add_argument(
        "--unpack-bits",
        action="store_true",
        default=None,
        help="each byte of a vector holds eight columns of 0 or 1, the first one in the highest bit",
    )
    # `outcome` ends the message of an interrupt. run() replaces it when the collection is published.
    parser.set_defaults(run=run, parser=parser, outcome="nothing was written")


def run(arguments: argparse.Namespace) -> int:
    if arguments.output is None and not arguments.dry_run:
        arguments.parser.error("--output DIR must be given, or --dry-run")
    options = ImportOptions(
        **{option.name: getattr(arguments, option.name) for option in dataclasses.fields(ImportOptions)}
    )

    def note_published(folder: str, generation: int) -> None:
        arguments.outcome = f"generation {generation} is published in {folder}"

    progress = None if arguments.quiet else ProgressLine()
    try:
        report = import_collection(
            arguments.kind,
            arguments.path,
            arguments.output,
            storage=arguments.storage,
            codes=arguments.codes,
            fields="" if arguments.fields == "none" else arguments.fields,
            name=arguments.name,
            allow_other_shape=arguments.allow_other_shape,
            refuse_lossy=arguments.refuse_lossy,
            options=options,
            skip_empty=arguments.skip_empty,
            progress=progress,
            dry_run=arguments.dry_run,
            on_published=note_published,
        )
    except OptionError as error:
        parser: argparse.ArgumentParser = arguments.parser
        parser.error(str(error))
    except ShapeError as error:
        raise ShapeError(error.reason, "--allow-other-shape") from None
    finally:
        if progress is not None:
            progress.finish()
    sys.stdout.write("\n".join(map(printable, describe(report))) + "\n")
    return 0


def describe(report: ImportReport) -> List[str]:
    """Returns the lines that tell the user what was imported or, for a dry run, what would be imported."""
    lines = [
        f"{'found     ' if report.output is None else 'imported  '} {report.kind}",
        f"documents  {report.num_documents:,}",
        f"tokens     {report.num_tokens:,}, {report.num_tokens / report.num_documents:.1f} a document",
        f"dim        {report.dim}",
        f"ids        {report.id_type}",
        f"payloads   {_describe_payloads(report)}",
        f"storage    {report.storage}, {_describe_bytes(report.num_bytes)}",
    ]
    if report.num_skipped:
        lines.append(f"skipped    {report.num_skipped:,} documents without a token vector")
    if report.loss.num_tokens:
        lines.append(f"warning    i8 keeps too little of {report.loss}: others of the same documents are far longer")
    lines += [f"note       {note}" for note in report.notes]
    lines.append("nothing was written" if report.output is None else f"written to {report.output}")
    return lines


def _describe_payloads(report: ImportReport) -> str:
    if not report.num_payloads:
        return "none"
    fields = ", ".join(
        name if count == report.num_documents else f"{name} ({count:,})"
        for name, count in report.payload_fields.items()
    )
    return f"{report.num_payloads:,} documents: {fields}"


def _describe_bytes(num_bytes: int) -> str:
    if num_bytes < 2**20:
        return f"{num_bytes / 2**10:.1f} KiB"
    if num_bytes < 2**30:
        return f"{num_bytes / 2**20:.1f} MiB"
    return f"{num_bytes / 2**30:.2f} GiB"

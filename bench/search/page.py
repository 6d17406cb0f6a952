#!/usr/bin/env python3
"""Makes the page and the plots of docs/performance from the report of run.py.

    bench/search/page.py docs/performance/search.json

Writes search.md and search/COLLECTION-*.svg beside the report. Needs only Python.
"""

import argparse
import json
import pathlib
from typing import Any, Dict, List, Sequence

import plot

Row = Dict[str, Any]

INTRODUCTION = """# Search: maxsimd beside its peers

What a search of a whole collection takes and finds: maxsimd, which has no index, and systems that have one, on the same
vectors, questions and machine. [bench/search](../../bench/search/README.md) says how to run it again.

- *Recall* is against the exact answer in FP64. A document counts that scores within 1e-5 of the k-th best one.
- *Queries a second* are those of large batches, as each system takes them. *p50* is of one question at a time, from Python.
- *Bytes* are those of all files that a system keeps, for each document. *Read* is what a scan of codes reads of them.
- Settings are written as the systems' own parameters. The first setting of each index is the system's default.
- *MRR@10* is that of the document which a question was made of: what a loss of recall means for an answer.
- *Refined* is how many documents were scored exactly: the median, and the most of any question.
"""

# If the recall of a setting of maxsimd is lower than the peer's by at most this, the two count as equal. It is half a
# document in 1,000.
SAME_RECALL = 0.0005


def settings(options: Row) -> str:
    return ", ".join(f"{name} {'auto' if value is None else value}" for name, value in options.items()) or "default"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def cells(row: Sequence[str]) -> str:
        return f"| {' | '.join(row)} |\n"

    return cells(head) + "|" + "---|" * len(head) + "\n" + "".join(map(cells, rows))


def rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def times(value: float) -> str:
    """Formats how many times better maxsimd is, in bold if it is worse."""
    shown = f"{value:,.0f} x" if value >= 10 else f"{value:.2g} x"
    return shown if value >= 1 else f"**{shown}**"


def index_of(report: Row, row: Row) -> Row:
    keys = ("collection", "system", "build")
    return next(index for index in report["indexes"] if all(index[key] == row[key] for key in keys))


def result_table(report: Row, collection: Row, k: int) -> str:
    rows = []
    for row in report["rows"]:
        if row["collection"] != collection["collection"] or row["k"] != k:
            continue
        index = index_of(report, row)
        per_document = index["bytes"]["index"] / collection["documents"]
        read = index["bytes"].get("read")
        refined = f"{row['refined_p50']:,.0f}, {row['refined_p100']:,.0f}" if "refined_p50" in row else ""
        fewer = "" if row["questions"] == collection["questions"] else f" ({row['questions']} questions)"
        rows.append([
            row["system"], settings(row["build"]), settings(row["search"]), f"{row['recall']:.4f}{fewer}",
            rate(row["batched_qps"]), f"{row['p50_ms']:.2f}", f"{row['p99_ms']:.2f}", f"{per_document:,.0f}",
            "" if read is None else f"{read / collection['documents']:,.0f}", f"{index['build_s']:,.1f}",
            f"{row['mrr@10']:.3f}" if "mrr@10" in row else "", refined,
        ])  # fmt: skip
    head = f"system,index,search,recall@{k},queries/s,p50 ms,p99 ms,bytes,read,build s,MRR@10,refined".split(",")
    return table(head, rows)


def comparisons(report: Row, collection: Row) -> List[List[str]]:
    """Returns table rows: for each setting of a peer, maxsimd's fastest setting whose recall is at least as high."""
    rows = [row for row in report["rows"] if row["collection"] == collection["collection"]]
    found = []
    for peer in rows:
        measured = [row for row in rows if row["system"] == "maxsimd" and row["k"] == peer["k"]]
        ours = [row for row in measured if row["recall"] >= peer["recall"] - SAME_RECALL]
        if peer["system"] == "maxsimd" or not measured:
            continue
        name = f"{peer['system']}: {settings(peer['build'])}; {settings(peer['search'])}"
        if not ours:
            found.append([name, str(peer["k"]), f"{peer['recall']:.4f}", "**none finds as much**", *[""] * 4])
            continue
        best = max(ours, key=lambda row: row["batched_qps"])
        quickest = min(ours, key=lambda row: row["p50_ms"])
        smallest = min(ours, key=lambda row: index_of(report, row)["bytes"]["index"])
        ratios = {
            "queries/s": best["batched_qps"] / peer["batched_qps"],
            "p50": peer["p50_ms"] / quickest["p50_ms"],
            "bytes": index_of(report, peer)["bytes"]["index"] / index_of(report, smallest)["bytes"]["index"],
        }
        found.append([
            name, str(peer["k"]),
            f"{peer['recall']:.4f}", f"{settings(best['build'])}; {settings(best['search'])}", f"{best['recall']:.4f}",
            *map(times, ratios.values()),
        ])  # fmt: skip
    return found


def proofs(report: Row, collection: Row) -> str:
    # A proof is about the stored vectors. Those of INT8 differ from the vectors of the exact answers by their rounding.
    rows = [
        row
        for row in report["rows"]
        if row["collection"] == collection["collection"] and "proven" in row and row["build"].get("storage") != "i8"
    ]
    if not rows:
        return ""
    proven, wrong = sum(row["proven"] for row in rows), sum(row["wrong_proofs"] for row in rows)
    asked = sum(row["questions"] for row in rows)
    return (
        f"Of {asked:,} answers from codes beside FP16, over all settings, {proven:,} are `PROVEN`. Of these, {wrong:,} differ "
        "from the exact top k in FP64.\n\n"
    )


def section(report: Row, collection: Row, folder: pathlib.Path) -> str:
    name = collection["collection"]
    rows = [row for row in report["rows"] if row["collection"] == name]
    made = collection["documents"] - collection["real_documents"]
    origin = "All documents are real."
    if made:
        origin = (
            f"{collection['real_documents']:,} documents are real. The other {made:,} consist of spans of real ones, "
            "with noise added."
        )
    parts = [
        f"## {collection['documents']:,} documents, {collection['kind']} vectors\n\n",
        f"{origin} The collection has {collection['vectors']:,} vectors of {collection['dim']} dimensions. "
        f"{collection['questions']:,} questions of {collection['mean_question_tokens']:.1f} tokens on average.\n\n",
    ]
    for kind, title in (("batched_qps", "large batches"), ("single_qps", "one question at a time")):
        file = folder / f"{name}-{kind.partition('_')[0]}.svg"
        file.write_text(plot.svg(f"{collection['documents']:,} documents, {collection['kind']}: {title}", rows, kind))
        parts.append(f"![Recall against queries a second, {title}]({folder.name}/{file.name})\n\n")
    parts.append(proofs(report, collection))
    compared = comparisons(report, collection)
    if compared:
        parts.append("### At the same recall\n\n")
        parts.append(
            "For each setting of a peer: maxsimd's fastest setting that finds at least as much. The last three columns say "
            "how many times better maxsimd is, each with the best of its settings that find as much. "
            "**Bold: maxsimd is worse.**\n\n"
        )
        head = ["peer", "k", "recall", "maxsimd", "recall", "queries/s", "p50", "bytes"]
        parts.append(table(head, compared) + "\n")
    for k in sorted({row["k"] for row in rows}):
        parts += [f"### Best {k}\n\n", result_table(report, collection, k), "\n"]
    failed = [row for row in report["failures"] if row["collection"] == name]
    if failed:
        parts.append("### Not measured\n\n")
        for row in failed:
            # The last line of an error says what happened; the lines before it say where.
            error = row["error"].strip().splitlines()[-1].replace("|", "/")[-200:]
            parts.append(f"- {row['system']} {settings(row.get('build') or {})}: `{error}`\n")
        parts.append("\n")
    return "".join(parts)


def machines(report: Row) -> str:
    versions: Dict[str, str] = {}
    for index in report["indexes"]:
        versions.update(index["versions"])
    lines = [f"Peers: {', '.join(f'{name} {version}' for name, version in sorted(versions.items()))}.\n"]
    on_cpu = sorted({index["system"] for index in report["indexes"] if index["device"] == "cpu"})
    on_gpu = sorted({index["system"] for index in report["indexes"] if index["device"] != "cpu"})
    if on_gpu:
        lines.append(f"On the GPU: {', '.join(on_gpu)}. On the CPU: {', '.join(on_cpu) or 'none'}.\n")
    for run in report["runs"]:
        gpu = ", driver ".join(run["gpu"][0]) if run["gpu"] else "no GPU"
        # Pages name no commits: the report has them.
        lines.append(f"- {run['date']}: {gpu}, {run['cpu_threads']} threads; `{run['command']}`\n")
    return "## Machines and versions\n\n" + lines[0] + "".join(lines[1:])


def page(report: Row, folder: pathlib.Path) -> str:
    """Returns the page as Markdown, and writes the plots into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    sections = [section(report, collection, folder) for collection in report["collections"]]
    return "\n".join([INTRODUCTION, *sections, machines(report)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=pathlib.Path)
    options = parser.parse_args()
    report = json.loads(options.report.read_text(encoding="utf-8"))
    made = page(report, options.report.with_suffix(""))
    options.report.with_suffix(".md").write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()

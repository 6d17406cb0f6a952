"""Summarizes the results of a suite with peer and with ours: counts, differences, and tables in Markdown."""

ABSENT = {"outcome": "absent", "error": "the file ended before it, or has no such test"}


def side_of(result, side):
    return result.get(side, ABSENT)


def passes(result, side):
    return side_of(result, side)["outcome"] == "passed"


def count(results):
    """Returns counts of tests, {file: {"tests", "peer", "ours", "lost"}}: all, those that pass with the peer, those
    that pass with ours, and those that pass only with the peer."""
    counts = {}
    for test, result in results.items():
        row = counts.setdefault(test.partition("::")[0], {"tests": 0, "peer": 0, "ours": 0, "lost": 0})
        row["tests"] += 1
        row["peer"] += passes(result, "peer")
        row["ours"] += passes(result, "ours")
        row["lost"] += passes(result, "peer") and not passes(result, "ours")
    return counts


def differences(results):
    """Returns the tests that do not pass on both sides, with the result of a side on which they do not. "lost": pass
    only with the peer. "gained": pass only with ours. "neither": pass with neither, without tests that both skip."""
    found = {"lost": [], "gained": [], "neither": []}
    for test, result in sorted(results.items()):
        with_peer, with_ours = passes(result, "peer"), passes(result, "ours")
        if with_peer and not with_ours:
            found["lost"].append((test, side_of(result, "ours")))
        elif with_ours and not with_peer:
            found["gained"].append((test, side_of(result, "peer")))
        elif not with_peer and {each["outcome"] for each in result.values()} != {"skipped"}:
            found["neither"].append((test, side_of(result, "ours")))
    return found


def _cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def _listed(title, tests):
    if not tests:
        return []
    lines = [f"## {title}", "", "| test | outcome | error |", "|---|---|---|"]
    lines += [f"| {_cell(test)} | {result['outcome']} | {_cell(result['error'])} |" for test, result in tests]
    return [*lines, ""]


def tables(summary):
    """Returns the summary of run_suite.py as a page in Markdown."""
    found = differences(summary["tests"])
    both = len(summary["sides"]) == 2
    counts = summary["counts"]
    total = {key: sum(row[key] for row in counts.values()) for key in ("tests", "peer", "ours", "lost")}
    skipped = sum(
        bool(result) and {each["outcome"] for each in result.values()} == {"skipped"}
        for result in summary["tests"].values()
    )
    lines = [
        f"# The tests of {summary['package']} {summary['version']}",
        "",
        f"{summary['date']}, {summary['device']}, torch {summary['torch']}, Python {summary['python']}. Ours is "
        f"{summary['drop_in']}. Of {total['tests']} tests {total['peer']} pass with the package and {total['ours']} "
        f"with ours; {total['lost']} pass with the package alone, and {skipped} are skipped with both.",
        "",
    ]
    if not both:
        lines += [f"Only one side ran: {summary['sides'][0]}.", ""]
    if summary["on_cpu"]:
        lines += ['The device "cuda" was the CPU.', ""]
    if summary["stand_ins"]:
        lines += [f"Not installed, and stood in for: {', '.join(summary['stand_ins'])}.", ""]
    lines += ["| file | tests | pass with the package | with ours | with the package alone |", "|---|---|---|---|---|"]
    for file, row in sorted(counts.items()):
        kind = " (a program)" if file in summary["programs"] else ""
        lines.append(f"| {file}{kind} | {row['tests']} | {row['peer']} | {row['ours']} | {row['lost']} |")
    lines += [f"| all | {total['tests']} | {total['peer']} | {total['ours']} | {total['lost']} |", ""]
    lines += [f"Left out: {file}, {reason}." for file, reason in summary["left_out"].items()]
    lines += [""] if summary["left_out"] else []
    if both:
        lines += _listed("Pass with the package, and not with ours", found["lost"])
        lines += _listed("Pass with ours, and not with the package", found["gained"])
        lines += _listed("Pass with neither", found["neither"])
    else:
        lines += _listed("Do not pass", [
            (test, next(iter(result.values()))) for test, result in sorted(summary["tests"].items())
            if next(iter(result.values()))["outcome"] not in ("passed", "skipped")
        ])  # fmt: skip
    return "\n".join(lines)

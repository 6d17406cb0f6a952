#!/usr/bin/python3
"""Checks that documentation and deployment files say what the programs do.

  scripts/check-docs.py BUILD_FOLDER [--fix]

- docs/reference/keys.md has the keys that `maxsimd --help` lists (--fix writes them), and the comments of
  config/maxsimd.yaml have their ranges.
- docs/reference/metrics.md has the metrics of server/, with their types and help (--fix writes these), and every reason
  of rejections. The dashboard and the alerts name no others.
- docs/reference/errors.md has the HTTP status of every gRPC code.
- Links and anchors of the Markdown files lead somewhere; pages that other files name exist.
- Commands of the README and of the pages for newcomers and callers name files, programs and make targets that exist.
- Every YAML and JSON file parses; every configuration among them is one that maxsimd accepts.

Runs on the distribution's Python: python3-yaml is one of its packages.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEYS = "docs/reference/keys.md"
KEYS_BEGIN = "<!-- keys of `maxsimd --help`, written by scripts/check-docs.py --fix -->\n"
KEYS_END = "<!-- end of keys -->\n"
METRICS = "docs/reference/metrics.md"
METRICS_BEGIN = "<!-- metrics of the code: series, type and help written by scripts/check-docs.py --fix -->\n"
METRICS_END = "<!-- end of metrics -->\n"
ERRORS = "docs/reference/errors.md"
# Readers type the commands of these pages, so the commands must work exactly as they are written.
PAGES_WITH_COMMANDS = [
    "README.md",
    "CONTRIBUTING.md",
    "demo/README.md",
    "docs/start.md",
    "docs/use/*.md",
    "docs/operate/*.md",
]
USERS_PAGES = ["docs/use/*.md", "docs/operate/*.md"]
MONITORING = ["deploy/prometheus/*.yml", "deploy/grafana/dashboards/*.json"]
# Names of libraries and programs that look like names of metrics.
NO_METRICS = {
    "maxsim_client",
    "maxsim_encoder",
    "maxsim_bench_front",
    "maxsim_bench_gpu",
    "maxsim_scores",
    "maxsim_scores_packed",
    "maxsim_server",
    "maxsim_top_k",
    "maxsim_rerank",
    "maxsim_rerank_curl",
    "maxsim_torch",
}
ENCODER_METRICS = "client/python/maxsim_encoder/metrics.py"
ENCODER_PAGE = "docs/use/encoder.md"
NO_TEXTS = (".json", ".svg", ".html", ".npy", ".png")
errors = []


def fail(text):
    errors.append(text)
    print(f"docs: {text}", file=sys.stderr)


def tracked(*patterns):
    output = subprocess.run(["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, capture_output=True, check=True)
    paths = [ROOT / name.decode() for name in output.stdout.split(b"\0") if name]
    return [path for path in paths if path.exists()]


def help_keys(maxsimd):
    """Returns the keys in maxsimd's --help, as (name, type, default and range, meaning)."""
    text = subprocess.run([maxsimd, "--help"], capture_output=True, check=True, text=True).stdout
    pattern = re.compile(r"^  --(\S+) <(.*?)>  \(default: (.*)\)  \[\S+\]\n +(.*)$", re.MULTILINE)
    keys = pattern.findall(text)
    if len(keys) < 20:
        fail(f"found only {len(keys)} keys in the output of {maxsimd} --help")
    return keys


def escaped(cell):
    return cell.replace("|", "\\|")


def table_row(*cells):
    return "| " + " | ".join(cells) + " |\n"


def between(name, begin, end):
    """Returns the text of a page before, between and after two marks, or None if the marks are missing."""
    text = (ROOT / name).read_text()
    first, last = text.find(begin), text.find(end)
    if first < 0 or last < first:
        fail(f"{name}: the marks around its table are gone")
        return None
    first += len(begin)
    return text[:first], text[first:last], text[last:]


def check_table(name, parts, wanted, fix, of_what):
    before, present, after = parts
    if present == wanted:
        return
    if fix:
        (ROOT / name).write_text(before + wanted + after)
        print(f"docs: wrote {name}")
    else:
        fail(f"{name}: the table is not that of {of_what}; scripts/check-docs.py BUILD --fix writes it")


def check_key_table(keys, fix):
    parts = between(KEYS, KEYS_BEGIN, KEYS_END)
    if parts is None:
        return
    table = "| key | type | default, range | meaning |\n|---|---|---|---|\n"
    for name, kind, default, meaning in keys:
        table += table_row(f"`{name}`", escaped(kind), escaped(default), escaped(meaning))
    check_table(KEYS, parts, f"\n{table}\n", fix, "maxsimd --help")


def check_example_ranges(keys):
    """Compares the ranges in the comments of config/maxsimd.yaml with those of the keys."""
    name = "config/maxsimd.yaml"
    ranges = {}
    for key, kind, default, _ in keys:
        _, separator, bounds = default.partition("; ")
        ranges[key] = bounds if separator else kind if re.fullmatch(r"\w+(\|\w+)+", kind) else ""
    section, comment = "", []
    for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("#"):
            comment.append(stripped.lstrip("# "))
            continue
        key = re.match(r"( *)(\w+):", line)
        if key and not key.group(1):
            section = key.group(2)
        elif key and f"{section}.{key.group(2)}" in ranges:
            wanted = ranges[f"{section}.{key.group(2)}"]
            said = re.search(r"\(((?:at least|numbers|slots)? ?\S+(?: to \S+)?)\)$", " ".join(comment))
            said = said.group(1) if said and re.search(r" to |^at least |\|", said.group(1)) else ""
            if said != wanted:
                fail(f"{name}:{number}: {section}.{key.group(2)}: its comment says ({said}), maxsimd --help ({wanted})")
        comment = []


def anchors(path):
    """Returns the anchors of a page's headings, as GitHub makes them: repeated headings get a number."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    found = []
    for heading in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        found.append(name if name not in found else f"{name}-{sum(1 for one in found if one.startswith(name))}")
    return found


def check_links():
    for path in tracked("*.md"):
        text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, section = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            if not target.exists():
                fail(f"{path.relative_to(ROOT)}: {link} leads nowhere")
            elif section and target.suffix == ".md" and section not in anchors(target):
                fail(f"{path.relative_to(ROOT)}: {link}: no such heading")
    # Pages that comments and texts name without a link must exist too.
    for path in tracked():
        if path.suffix in NO_TEXTS or path.is_relative_to(ROOT / "docs" / "lab"):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for page in sorted(set(re.findall(r"(?<![\w/.])(?:docs|kernels|demo|client|bench)/[\w/-]*\.md\b", text))):
            if "YYYY" not in page and not (ROOT / page).exists():
                fail(f"{path.relative_to(ROOT)}: names {page}, which is not there")


def commands(text):
    """Returns the lines of a page's code: fenced as a shell's, or indented."""
    fenced = re.findall(r"^```(?:sh|bash|console)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"(?:^\n(?:(?: {4,}|\t).*\n)+)", rest, flags=re.MULTILINE)
    return [line for block in fenced + blocks for line in block.splitlines()]


def check_commands(build):
    folders = {path.relative_to(ROOT).parts[0] for path in tracked() if len(path.relative_to(ROOT).parts) > 1}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for path in tracked(*PAGES_WITH_COMMANDS):
        name = path.relative_to(ROOT)
        for line in commands(path.read_text()):
            line = line.partition(" #")[0]
            for program in re.findall(r"(?<![\w/])build/release/bin/([\w-]+)", line):
                if not (build / "bin" / program).exists():
                    fail(f"{name}: a command names the program {program}, which the build does not have")
            for word in re.findall(r"(?<![\w/.=:-])\.?/?[\w.-]+/[\w./-]+", line):
                word = word.removeprefix("./").rstrip(".")
                if word.partition("/")[0] in folders and not word.startswith("-") and not (ROOT / word).exists():
                    fail(f"{name}: a command names {word}, which is not there")
            for target in re.findall(r"(?:^|&& |\$ )\s*(?:sudo )?make ([a-z-]+)", line):
                if target not in targets:
                    fail(f"{name}: a command makes {target}, which the Makefile does not have")


def check_configuration(maxsimd, path):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAXSIM_")}
    result = subprocess.run(
        [maxsimd, "--config", path, "--check-config"], capture_output=True, text=True, cwd=ROOT, env=clean
    )
    return "" if result.returncode == 0 else (result.stderr or result.stdout).strip()


def check_data_files(maxsimd):
    for path in tracked("*.json"):
        try:
            json.loads(path.read_text())
        except ValueError as error:
            fail(f"{path.relative_to(ROOT)}: {error}")
    for path in tracked("*.yaml", "*.yml"):
        name = path.relative_to(ROOT)
        # A chart's templates are YAML once Helm has rendered them, which tests/deploy does.
        if name.is_relative_to("deploy/helm") and "templates" in name.parts:
            continue
        try:
            # Compose has tags of its own, !reset and !override.
            text = re.sub(r"!(reset|override)\b", "", path.read_text())
            documents = list(yaml.safe_load_all(text))
        except yaml.YAMLError as error:
            fail(f"{name}: {error}")
            continue
        if name.parts[0] == "config" or name.name == "maxsimd.yaml" and name.parts[1] == "docker":
            problem = check_configuration(maxsimd, path)
            if problem:
                fail(f"{name}: {problem}")
        for document in documents:
            if isinstance(document, dict) and document.get("kind") == "ConfigMap":
                for key, value in document["data"].items():
                    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                        file.write(value)
                        file.flush()
                        problem = check_configuration(maxsimd, file.name)
                    if problem:
                        fail(f"{name}: {key}: {problem}")


LITERALS = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'


def joined(literals):
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals))


def code_metrics():
    """Returns the metrics of server/, in the order of the code: name to (type, help)."""
    metrics = {}
    for path in tracked("server/*.cc", "server/*.h"):
        text = path.read_text()
        found = []
        for match in re.finditer(r"\bAdd(Counter|Gauge|Histogram)\([^,\"]*,\s*\"(\w+)\",\s*" + LITERALS, text):
            found.append((match.start(), match[2], match[1].lower(), joined(match[3])))
        for match in re.finditer(r'\bSeries\(\s*"(\w+)",\s*' + LITERALS + r",\s*MetricType::(\w+)", text):
            found.append((match.start(), match[1], match[3].lower(), joined(match[2])))
        single = r'\.name = "(\w+)";\s*\w+\.help = ' + LITERALS + r";\s*\w+\.type = [\w:]*MetricType::(\w+)"
        for match in re.finditer(single, text):
            found.append((match.start(), match[1], match[3].lower(), joined(match[2])))
        for name in re.findall(r'"((?:maxsim|process)_[a-z_]+)"', text):
            if name not in {one[1] for one in found}:
                fail(f"{path.relative_to(ROOT)}: {name} is exported in a way that this script does not read")
        metrics.update({name: (kind, text) for _, name, kind, text in sorted(found)})
    if len(metrics) < 10:
        fail(f"found only {len(metrics)} metrics in server/")
    return metrics


def encoder_metrics():
    """Returns the names of maxsim-encoder's metrics. Fails if its page does not describe exactly these."""
    names = set(re.findall(r'"(maxsim_encoder_[a-z_]+)"', (ROOT / ENCODER_METRICS).read_text()))
    described = set(re.findall(r"^\| `(maxsim_encoder_[a-z_]+)` \|", (ROOT / ENCODER_PAGE).read_text(), re.MULTILINE))
    for name in sorted(names ^ described):
        fail(f"{ENCODER_PAGE}: {name} is not both in {ENCODER_METRICS} and in the table of metrics")
    return names


def check_metrics(fix):
    metrics = code_metrics()
    known = metrics.keys() | encoder_metrics() | NO_METRICS
    for path in tracked(*MONITORING, *USERS_PAGES):
        for name in sorted(set(re.findall(r"\b(?:maxsim|process)_[a-z_]+\b", path.read_text()))):
            if not {name, re.sub(r"_(bucket|sum|count)$", "", name)} & known:
                fail(f"{path.relative_to(ROOT)}: no metric {name} in the code")
    parts = between(METRICS, METRICS_BEGIN, METRICS_END)
    if parts is None:
        return
    # Labels and notes are written by hand.
    rows = re.findall(r"^\| `(\w+)` \|.*?\|(.*?)\|.*\|(.*?)\|$", parts[1], flags=re.MULTILINE)
    by_hand = {name: (labels.strip(), notes.strip()) for name, labels, notes in rows}
    table = "| series | type | labels | help | notes |\n|---|---|---|---|---|\n"
    for name, (kind, text) in metrics.items():
        labels, notes = by_hand.get(name, ("", ""))
        table += table_row(f"`{name}`", kind, labels, escaped(text), notes).replace("  |", " |")
    check_table(METRICS, parts, f"\n{table}\n", fix, "server/")


def check_reasons():
    sources = "".join(path.read_text() for path in tracked("server/*.cc"))
    reasons = set(re.findall(r'case Rejection::\w+:\s+return "(\w+)";', sources))
    if len(reasons) < 5:
        fail(f"found only {len(reasons)} reasons of rejections in server/")
    table = (ROOT / METRICS).read_text().partition("## Reasons")[2]
    described = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    for reason in sorted(reasons ^ described):
        fail(f"{METRICS}: the reason {reason} is not both in the code and in the table of reasons")
    for path in tracked(*MONITORING, "docs/*.md"):
        for named in re.findall(r'reason=~?\\?"([\w|\\]+)', path.read_text()):
            for reason in sorted(set(re.split(r"[|\\]+", named)) - reasons - {""}):
                fail(f"{path.relative_to(ROOT)}: maxsim_rejections_total has no reason {reason}")


def check_error_codes():
    sources = [path.read_text() for path in tracked("server/http/*.cc")]
    source = next((text for text in sources if "int ToHttpCode(" in text), "")
    codes = {}
    for cases, number in re.findall(r"((?:case absl::StatusCode::k\w+:\s+)+)return (\d+);", source):
        for name in re.findall(r"::k(\w+):", cases):
            codes[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()] = number
    if len(codes) < 10:
        fail(f"found only {len(codes)} status codes in server/http")
    otherwise = re.search(r"default:\s+return (\d+);", source)
    described = dict(re.findall(r"^\| `([A-Z_]+)` \| (\d+) \|", (ROOT / ERRORS).read_text(), re.MULTILINE))
    for code in sorted((codes.keys() | described.keys()) - {"OK"}):
        wanted = codes.get(code, otherwise.group(1) if otherwise else "")
        if described.get(code) != wanted:
            fail(f"{ERRORS}: {code} is {described.get(code, 'absent')}, and {wanted} in the code")


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--fix"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    build, fix = pathlib.Path(arguments[0]).resolve(), "--fix" in sys.argv
    maxsimd = str(build / "bin" / "maxsimd")
    keys = help_keys(maxsimd)
    check_key_table(keys, fix)
    check_example_ranges(keys)
    check_metrics(fix)
    check_reasons()
    check_error_codes()
    check_links()
    check_commands(build)
    check_data_files(maxsimd)
    if errors:
        sys.exit(1)
    print("docs: in order")


if __name__ == "__main__":
    main()

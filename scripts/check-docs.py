#!/usr/bin/python3
"""Checks that documentation and deployment files say what the programs do.

  scripts/check-docs.py BUILD_FOLDER [--fix]

- README.md's table of configuration keys is what `maxsimd --help` lists (--fix rewrites it).
- Links of the Markdown files to files of the repository lead somewhere.
- Every YAML and JSON file parses; every configuration among them is one that maxsimd accepts.
- The dashboard and the alerts name only metrics that the server exports, and reasons of rejections that it has;
  docs/operations.md describes every reason.

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
TABLE_BEGIN = "<!-- keys of `maxsimd --help`, written by scripts/check-docs.py --fix -->\n"
TABLE_END = "<!-- end of keys -->\n"
errors = []


def fail(text):
    errors.append(text)
    print(f"docs: {text}", file=sys.stderr)


def tracked(*patterns):
    output = subprocess.run(["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, capture_output=True, check=True)
    paths = [ROOT / name.decode() for name in output.stdout.split(b"\0") if name]
    return [path for path in paths if path.exists()]


def key_table(help_text):
    """The Markdown rows of the keys in maxsimd's --help."""
    pattern = re.compile(r"^  --(\S+) <(.*?)>  \(default: (.*)\)  \[(\S+)\]\n +(.*)$", re.MULTILINE)
    rows = ["| key | type | default, range | meaning |\n", "|---|---|---|---|\n"]
    for name, kind, default, _, meaning in pattern.findall(help_text):
        cells = [f"`{name}`", kind.replace("|", "\\|"), default.replace("|", "\\|"), meaning.replace("|", "\\|")]
        rows.append("| " + " | ".join(cells) + " |\n")
    return "".join(rows), len(rows) - 2


def check_key_table(maxsimd, fix):
    help_text = subprocess.run([maxsimd, "--help"], capture_output=True, check=True, text=True).stdout
    table, count = key_table(help_text)
    if count < 20:
        fail(f"found only {count} keys in the output of {maxsimd} --help")
        return
    readme = ROOT / "README.md"
    text = readme.read_text()
    begin, end = text.find(TABLE_BEGIN), text.find(TABLE_END)
    if begin < 0 or end < begin:
        fail("README.md: the marks around the table of keys are gone")
        return
    wanted = text[: begin + len(TABLE_BEGIN)] + "\n" + table + "\n" + text[end:]
    if wanted == text:
        return
    if fix:
        readme.write_text(wanted)
        print(f"docs: wrote {count} keys into README.md")
    else:
        fail("README.md: the table of keys is not that of maxsimd --help; scripts/check-docs.py BUILD --fix writes it")


def anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


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
            elif section and target.suffix == ".md":
                headings = re.findall(r"^#+ (.*)$", target.read_text(), flags=re.MULTILINE)
                if section not in map(anchor, headings):
                    fail(f"{path.relative_to(ROOT)}: {link}: no such heading")


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
        try:
            # Compose has a tag of its own, !reset.
            text = re.sub(r"!reset\b", "", path.read_text())
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


def check_metrics():
    exported = set()
    for path in tracked("server/*.cc"):
        exported.update(re.findall(r'"((?:maxsim|process)_[a-z_]+)"', path.read_text()))
    if len(exported) < 10:
        fail(f"found only {len(exported)} metrics in server/")
    for path in tracked("deploy/prometheus/*.yml", "deploy/grafana/dashboards/*.json"):
        for name in sorted(set(re.findall(r"\b(?:maxsim|process)_[a-z_]+\b", path.read_text()))):
            if name not in exported and re.sub(r"_(bucket|sum|count)$", "", name) not in exported:
                fail(f"{path.relative_to(ROOT)}: no metric {name} in server/")


def check_reasons():
    source = (ROOT / "server/observability/metrics.cc").read_text()
    reasons = set(re.findall(r'case Rejection::\w+:\s+return "(\w+)";', source))
    if len(reasons) < 5:
        fail(f"found only {len(reasons)} reasons of rejections in server/observability/metrics.cc")
    row = re.search(r"^\| `maxsim_rejections_total` .*$", (ROOT / "docs/operations.md").read_text(), re.MULTILINE)
    for reason in sorted(reasons):
        if not row or f"`{reason}`" not in row.group():
            fail(f"docs/operations.md: maxsim_rejections_total has a reason {reason}, which its row does not describe")
    for path in tracked("deploy/prometheus/*.yml", "deploy/grafana/dashboards/*.json", "docs/operations.md"):
        for named in re.findall(r'reason=~?\\?"([\w|]+)', path.read_text()):
            for reason in sorted(set(named.split("|")) - reasons):
                fail(f"{path.relative_to(ROOT)}: maxsim_rejections_total has no reason {reason}")


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--fix"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    maxsimd = str(pathlib.Path(arguments[0]).resolve() / "bin" / "maxsimd")
    check_key_table(maxsimd, "--fix" in sys.argv)
    check_links()
    check_data_files(maxsimd)
    check_metrics()
    check_reasons()
    if errors:
        sys.exit(1)
    print("docs: in order")


if __name__ == "__main__":
    main()

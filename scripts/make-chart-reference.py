#!/usr/bin/python3
"""Writes the table of values in the README of the Helm chart, from the comments of its values.yaml.

  scripts/make-chart-reference.py [--check]

Each key of values.yaml has a comment above it; the comment of a section says what the section is for. A row of the table is a
value, or a section that is empty or whose keys the chart does not know. --check writes nothing, and fails if the table would
change. Both modes fail if a key has no comment, or if values.yaml and values.schema.json do not have the same keys.

Also copies deploy/prometheus/alerts.yml into the chart, because the chart's folder must work on its own; --check
compares them.

Runs on the distribution's Python: python3-yaml is one of its packages.
"""

import json
import pathlib
import re
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy" / "helm" / "maxsim"
BEGIN = "<!-- values of values.yaml, written by scripts/make-chart-reference.py -->\n"
END = "<!-- end of values -->\n"
# Sections whose keys belong to other programs. The schema allows any key in them.
FOREIGN = ("config", "groups.config", "router.config", "networkPolicy.clientLabels")
# These sections get one row each, with their whole value.
WHOLE = ("groups.resources", "router.resources", "nats.resources", "groups.collections")


def comments_of(text):
    """Returns the comment above each key of a YAML file, by the key's path, and the keys without a comment."""
    found, bare, path, comment = {}, [], [], []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            comment.append(stripped.lstrip("# "))
            continue
        key = re.match(r"( *)([\w.-]+):(?: |$)", line)
        if key:
            path = [one for one in path if one[0] < len(key[1])] + [(len(key[1]), key[2])]
            name = ".".join(one[1] for one in path)
            if comment:
                found[name] = " ".join(comment)
            elif not name.startswith(tuple(whole + "." for whole in (*WHOLE, *FOREIGN))):
                bare.append(name)
        comment = []
    return found, bare


def leaves(values, path=""):
    """Yields (path, value) of each key that gets a row."""
    for key, value in values.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, dict) and value and name not in WHOLE and name != "networkPolicy.clientLabels":
            yield from leaves(value, name)
        else:
            yield name, value


def shown(value):
    return "`" + json.dumps(value, ensure_ascii=False) + "`"


def table(values, comments):
    """The rows, each section under its comment."""
    lines = []
    sections = {}
    for name, value in leaves(values):
        sections.setdefault(name.split(".")[0] if "." in name else "", []).append((name, value))
    for section, rows in sections.items():
        if section:
            lines.append(f"\n**{section}**: {comments[section]}\n\n")
        else:
            lines.append("\n")
        lines.append("| value | default | meaning |\n|---|---|---|\n")
        for name, value in rows:
            meaning = comments.get(name, "").replace("|", "\\|")
            lines.append(f"| `{name}` | {shown(value)} | {meaning} |\n")
    return "".join(lines) + "\n"


def keys_of_schema(schema, node):
    """Returns the properties of a schema, after following references, or None if the schema allows any property."""
    while "$ref" in node:
        target = schema
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node.get("properties") if node.get("additionalProperties") is False else None


def compare(schema, node, values, path, problems):
    """Adds to `problems` every key that only the values or only the schema has."""
    properties = keys_of_schema(schema, node)
    if properties is None:
        return
    # Helm itself adds `global` to a chart that contains other charts.
    for key in sorted((properties.keys() ^ values.keys()) - {"global"}):
        where = "values.schema.json" if key in properties else "values.yaml"
        problems.append(f"{path}{key} is in {where} alone")
    for key, value in values.items():
        if isinstance(value, dict) and key in properties and f"{path}{key}" not in (*FOREIGN, *WHOLE):
            compare(schema, properties[key], value, f"{path}{key}.", problems)


def main():
    check = sys.argv[1:] == ["--check"]
    if len(sys.argv) > 1 and not check:
        sys.exit(__doc__)
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    values = yaml.safe_load(text)
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    comments, bare = comments_of(text)
    problems = [f"values.yaml: {name} has no comment" for name in bare]
    compare(schema, schema, values, "", problems)
    readme = CHART / "README.md"
    present = readme.read_text(encoding="utf-8")
    before, begin, rest = present.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        problems.append("README.md: the marks around the table of values are gone")
    else:
        wanted = before + BEGIN + table(values, comments) + END + after
        if wanted != present and check:
            problems.append("README.md: the table is not that of values.yaml: run scripts/make-chart-reference.py")
        elif wanted != present:
            readme.write_text(wanted, encoding="utf-8")
            print(f"chart: wrote {readme.relative_to(ROOT)}")
    alerts, copy = ROOT / "deploy" / "prometheus" / "alerts.yml", CHART / "files" / "alerts.yml"
    if copy.is_symlink() or copy.read_bytes() != alerts.read_bytes():
        if check:
            problems.append("files/alerts.yml is not a copy of deploy/prometheus/alerts.yml: run scripts/make-chart-reference.py")
        else:
            copy.unlink()
            copy.write_bytes(alerts.read_bytes())
            print(f"chart: wrote {copy.relative_to(ROOT)}")
    for problem in problems:
        print(f"chart: {problem}", file=sys.stderr)
    if problems:
        sys.exit(1)
    print(f"chart: {len(list(leaves(values)))} values")


if __name__ == "__main__":
    main()

"""Reads and writes the JSON files of the suite."""

import json
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent
MAX_COLUMNS = 120
MAX_EXACT = 2**53 - 1  # largest integer that every JSON parser reads exactly


def read_data():
    """Returns the contents of data.json: the documents that the servers hold, and the vectors of words."""
    return with_integers(json.loads((FOLDER / "data.json").read_text(encoding="utf-8")))


def case_paths():
    """Returns the paths of the case files by their names without the suffix. The name is a method or a subject."""
    return {path.stem: path for path in sorted((FOLDER / "cases").glob("*.json"))}


def read_cases(path):
    """Returns the cases of a file, whose names must be distinct."""
    cases = json.loads(path.read_text(encoding="utf-8"))
    names = [case["name"] for case in cases]
    assert len(set(names)) == len(names), f"{path}: two cases have one name"
    return cases


def steps_of(case, method):
    """Returns all calls of a case: the case itself, which calls `method` unless it names another one, then those in
    `then`."""
    return [{"method": method, **case}, *case.get("then", [])]


def write_json(path, value):
    path.write_text(_laid_out(value, 0) + "\n", encoding="utf-8")


def _laid_out(value, indent):
    """Returns JSON in which a value takes one line if it fits."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent + 1 <= MAX_COLUMNS or not isinstance(value, (list, dict)) or not value:
        return line
    pad = " " * (indent + 2)
    if isinstance(value, dict):
        parts = [f"{json.dumps(name, ensure_ascii=False)}: {_laid_out(one, indent + 2)}" for name, one in value.items()]
        return "{\n" + ",\n".join(pad + part for part in parts) + "\n" + " " * indent + "}"
    parts = [_laid_out(one, indent + 2) for one in value]
    return "[\n" + ",\n".join(pad + part for part in parts) + "\n" + " " * indent + "]"


def with_integers(value):
    """Replaces each {"int64": "123"} by the integer 123. Cases have large integers in this form, because some JSON
    parsers would round them."""
    if isinstance(value, dict):
        if set(value) == {"int64"}:
            return int(value["int64"])
        return {name: with_integers(one) for name, one in value.items()}
    return [with_integers(one) for one in value] if isinstance(value, list) else value


def without_large_integers(value):
    if isinstance(value, dict):
        return {name: without_large_integers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [without_large_integers(one) for one in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_EXACT:
        return {"int64": str(value)}
    return value

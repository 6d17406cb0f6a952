#!/usr/bin/python3
"""Compares proto/maxsim with proto/api-v1.txt, the declarations that clients may rely on, and fails if one of them was
removed or changed.

  scripts/check-proto-compatibility.py             compares; lists new declarations, which are allowed
  scripts/check-proto-compatibility.py --update    also writes the new ones to proto/api-v1.txt
  --root FOLDER                                    a copy of the repository to check, for tests

These changes break clients, and fail:
  - a file, message, field, enum, value, service or rpc that was removed, renamed or moved to another file;
  - a field or value with another number; a field with another type, label, oneof or JSON name;
  - an rpc with another request, another response, or a stream where there was none, or the reverse;
  - another package, or another option that decides where generated code is (go_package, java_multiple_files, ...);
  - a reserved number or name that is used again or is not reserved any more.

A declaration that is not in proto/api-v1.txt yet may still change. Its first line names the version of the last
--update. If CMakeLists.txt has another version, new declarations fail too: --update belongs to each release. It never
removes or changes a line. protoc parses the files.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BASELINE = pathlib.Path("proto", "api-v1.txt")
HEAD = "# maxsim {}: what clients may rely on. Written by scripts/check-proto-compatibility.py --update; do not edit."

# Options of a file that change the names of generated code.
NAMING_OPTIONS = ("go_package", "java_package", "java_outer_classname", "java_multiple_files", "csharp_namespace",
                  "objc_class_prefix", "php_namespace", "ruby_package", "swift_prefix")

TOKEN = re.compile(r'\s*(?:(\w+) \{|(\w+): ("(?:[^"\\]|\\.)*"|\S+)|(\}))')


class Failure(Exception):
    """Its text is the error for the user."""


def parse_text_format(text):
    """Returns a message in protobuf's text format as a dict of lists: texts for values, dicts for messages."""
    top = collections.defaultdict(list)
    stack = [top]
    position = 0
    text = text.rstrip()
    while position < len(text):
        token = TOKEN.match(text, position)
        if token is None:
            raise Failure(f"the output of protoc is not understood: {text[position:position + 60]!r}")
        position = token.end()
        block, key, value, closing = token.groups()
        if block:
            stack.append(collections.defaultdict(list))
            stack[-2][block].append(stack[-1])
        elif closing:
            stack.pop()
        else:
            stack[-1][key].append(value.strip('"'))
    return top


def read_files(root):
    """Returns the parsed FileDescriptorProto of each file below proto/maxsim, in the order of their names."""
    folder = root / "proto"
    names = sorted(str(path.relative_to(folder)) for path in (folder / "maxsim").rglob("*.proto"))
    try:
        binary = subprocess.run(["protoc", "-I", str(folder), "--descriptor_set_out=/dev/stdout", *names],
                                capture_output=True, check=True).stdout
        decode = ["protoc", "--decode=google.protobuf.FileDescriptorSet", "google/protobuf/descriptor.proto"]
        text = subprocess.run(decode, input=binary, capture_output=True, check=True).stdout.decode()
    except FileNotFoundError:
        raise Failure("protoc is missing; scripts/setup.sh build installs it") from None
    except subprocess.CalledProcessError as error:
        raise Failure(error.stderr.decode().strip()) from None
    files = parse_text_format(text)["file"]
    return sorted(files, key=lambda file: file["name"][0])


def reserved(message, name, is_enum):
    """Yields the entries of the reserved numbers and names of a message or an enum."""
    for entry in message["reserved_range"]:
        first, end = int(entry["start"][0]), int(entry["end"][0])
        # The end is part of an enum's range, but not of a message's.
        for number in range(first, end + 1 if is_enum else end):
            yield f"{name} {number}", "reserved"
    for entry in message["reserved_name"]:
        yield f"{name} {entry}", "reserved"


def enum_entries(enum, scope):
    name = f"{scope}.{enum['name'][0]}"
    yield f"enum {name}", ""
    for value in enum["value"]:
        yield f"{name} {value['number'][0]}", value["name"][0]
    yield from reserved(enum, name, True)


def type_of(field):
    """Returns the type of a field as in a .proto file, with the full name of a message or an enum."""
    if field["type_name"]:
        return field["type_name"][0].removeprefix(".")
    return field["type"][0].removeprefix("TYPE_").lower()


def message_entries(message, scope):
    name = f"{scope}.{message['name'][0]}"
    yield f"message {name}", ""
    for field in message["field"]:
        label = field["label"][0].removeprefix("LABEL_").lower()
        if label == "optional" and "true" not in field["proto3_optional"]:
            label = ""
        words = [label, type_of(field), field["name"][0]]
        if field["oneof_index"] and "true" not in field["proto3_optional"]:
            words.append(f"in oneof {message['oneof_decl'][int(field['oneof_index'][0])]['name'][0]}")
        derived_name = re.sub("_(.?)", lambda match: match[1].upper(), field["name"][0])
        if field["json_name"][0] != derived_name:
            words.append(f"json {field['json_name'][0]}")
        yield f"{name} {field['number'][0]}", " ".join(filter(None, words))
    yield from reserved(message, name, False)
    for enum in message["enum_type"]:
        yield from enum_entries(enum, name)
    for nested in message["nested_type"]:
        yield from message_entries(nested, name)


def service_entries(service, package):
    name = f"{package}.{service['name'][0]}"
    yield f"service {name}", ""
    for method in service["method"]:
        request, response = (
            ("stream " if "true" in method[stream] else "") + method[kind][0].removeprefix(".")
            for kind, stream in (("input_type", "client_streaming"), ("output_type", "server_streaming")))
        yield f"rpc {name}.{method['name'][0]}", f"{request} returns {response}"


def entries_of(root):
    """Returns the declarations in the order of the files: what is declared, and how."""
    entries = {}
    for file in read_files(root):
        package = file["package"][0]
        declared = [(f"file {file['name'][0]}", f"package {package}")]
        options = file["options"][0] if file["options"] else {}
        declared += [(f"option {file['name'][0]} {option}", options[option][0])
                     for option in NAMING_OPTIONS if options.get(option)]
        for service in file["service"]:
            declared += service_entries(service, package)
        for enum in file["enum_type"]:
            declared += enum_entries(enum, package)
        for message in file["message_type"]:
            declared += message_entries(message, package)
        # Each names its file, because a declaration that moves to another file breaks programs that include that file.
        for what, how in declared:
            if what.split()[0] in ("message", "enum", "service"):
                how = f"in {file['name'][0]}"
            entries[what] = how
    return entries


def render(entries, version):
    return "\n".join([HEAD.format(version), *(f"{what}: {how}" for what, how in entries.items())]) + "\n"


def read_baseline(text):
    """Returns the version and the entries of a baseline."""
    lines = text.splitlines()
    version = re.match(r"# maxsim (\S+):", lines[0]) if lines else None
    if version is None:
        raise Failure(f"{BASELINE}: the first line names no version")
    entries = {}
    for number, line in enumerate(lines[1:], start=2):
        what, mark, how = line.partition(": ")
        if not mark or what in entries:
            raise Failure(f"{BASELINE}:{number}: not understood: {line}")
        entries[what] = how
    return version[1], entries


def breaks(old, new):
    """Yields a line for each declaration of `old` that `new` lacks or declares otherwise."""
    for what, how in old.items():
        if what not in new:
            yield f"{what}: {how}: is gone"
        elif new[what] != how:
            yield f"{what}: {how}: is now {new[what]}"


def check(root, update):
    """Returns the lines to print. Raises Failure if a declaration was removed or changed."""
    match = re.search(r"^project\(\w+ VERSION (\S+)", (root / "CMakeLists.txt").read_text(encoding="utf-8"), re.M)
    if match is None:
        raise Failure("CMakeLists.txt: project() names no VERSION")
    version = match[1]
    new = entries_of(root)
    path = root / BASELINE
    old_version, old = read_baseline(path.read_text(encoding="utf-8")) if path.exists() else (None, {})
    broken = list(breaks(old, new))
    if broken:
        raise Failure("these declarations of proto/maxsim are promised to clients. Restore them, and add new ones "
                      "instead:\n  " + "\n  ".join(broken))
    added = [f"{what}: {how}" for what, how in new.items() if what not in old]
    if update:
        path.write_text(render(new, version), encoding="utf-8")
        return [f"{BASELINE}: {len(new)} declarations, {len(added)} of them new"]
    if added and old_version != version:
        state = f"there is no {BASELINE}"
        if old:
            state = f"{BASELINE} is of version {old_version}, CMakeLists.txt of {version}"
        raise Failure(f"{state}. Run scripts/check-proto-compatibility.py --update: a release promises these "
                      "declarations:\n  " + "\n  ".join(added))
    return [*(f"new: {line}" for line in added), f"proto: {len(old)} declarations are as {BASELINE} has them"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    arguments = parser.parse_args()
    try:
        print("\n".join(check(arguments.root, arguments.update)))
    except Failure as failure:
        sys.exit(f"check-proto-compatibility: {failure}")


if __name__ == "__main__":
    main()

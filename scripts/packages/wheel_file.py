"""Writes wheels, for server_wheel.py and torch_wheel.py. The same content gives the same bytes: files are in a fixed
order, and their times are SOURCE_DATE_EPOCH's, or that of the commit."""

import base64
import hashlib
import os
import pathlib
import shutil
import subprocess
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

WHEEL = """\
Wheel-Version: 1.0
Generator: maxsim
Root-Is-Purelib: false
Tag: py3-none-{tag}
"""


def commit_time():
    """Returns the time that every file of the wheel gets, in seconds since 1970, but not before 1980, the oldest time
    that a zip file can hold."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if not given:
        shown = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
        given = shown.stdout.strip()
    return max(int(given or 0), 315532800)


def zip_wheel(staging, record, target):
    """Writes every file below `staging`, and RECORD, which lists them with their hashes."""
    when = time.gmtime(commit_time())[:6]
    lines = []
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name, data, mode):
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)

        # dist-info goes last, as the format recommends.
        for path in sorted(staging.rglob("*"), key=lambda path: (".dist-info" in str(path), str(path))):
            if not path.is_file():
                continue
            name, data = str(path.relative_to(staging)), path.read_bytes()
            add(name, data, 0o755 if path.parent.name == "bin" else 0o644)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(data)}\n")
        add(record, "".join(lines) + f"{record},,\n", 0o644)


def build(package, version, target, lay_out):
    """Builds the wheel of `package` in the folder `target`, removes other versions of it there, and returns its path.

    lay_out(package folder, dist-info folder) makes all files but RECORD, and returns the platform tag."""
    staging = target.resolve() / f"{package}.new"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        dist_info = f"{package}-{version}.dist-info"
        tag = lay_out(staging / package, staging / dist_info)
        for old in target.glob(f"{package}-*.whl"):
            old.unlink()
        wheel = target / f"{package}-{version}-py3-none-{tag}.whl"
        zip_wheel(staging, f"{dist_info}/RECORD", wheel)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return wheel

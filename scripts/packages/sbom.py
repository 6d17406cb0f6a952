#!/usr/bin/python3
"""Writes lists of what the programs and the image are made of (SBOM), in the format CycloneDX 1.6 (JSON). Runs on a
Debian or an Ubuntu.

  scripts/packages/sbom.py programs BUILD_FOLDER LIBRARIES OUTPUT

lists the programs of a build folder with the libraries that are bundled with them and the headers that are compiled in.
LIBRARIES is a file with the paths of the libraries on this machine, one per line (libraries.list of scripts/bundle.sh).

  scripts/packages/sbom.py image PROGRAMS OS_RELEASE DPKG_STATUS OUTPUT

lists an image: the list PROGRAMS, and the packages of the image's base, which its files /etc/os-release and
/var/lib/dpkg/status name.

The same input gives the same bytes: the time in the list is SOURCE_DATE_EPOCH, or the one of the list PROGRAMS.
"""

import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time
import urllib.parse
import uuid

import licences

FORMAT = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1}
PROGRAMS_REF = "maxsimd"
IMAGE_REF = "image"
# A header of each library that is compiled into the programs. licences.py leaves out Boost, but its HTTP parser reads what
# clients send, so a scanner must know its version.
COMPILED_IN = [*licences.COMPILED_IN, "/usr/include/boost/version.hpp"]


class Unreadable(Exception):
    """A file is not what its argument says. The message names the file."""


def read_os_release(text, name):
    """Returns the variables of a file /etc/os-release, as {name: value}. Raises Unreadable if it does not name the
    distribution; `name` is the file's name for that message."""
    found = {key: value.strip("\"'") for key, value in re.findall(r"^([A-Z_]+)=(.*)$", text, re.MULTILINE)}
    missing = [key for key in ("ID", "VERSION_ID") if not found.get(key)]
    if missing:
        raise Unreadable(f"{name} has no {missing[0]}: the image must be a release of Debian or Ubuntu")
    return found


def read_packages(text, name):
    """Returns the installed packages of a file /var/lib/dpkg/status, each as {field: value} without the fields'
    further lines. Raises Unreadable if it names none; `name` is the file's name for that message."""
    paragraphs = [dict(re.findall(r"^([\w-]+): *(.*)$", part, re.MULTILINE)) for part in text.split("\n\n")]
    found = [one for one in paragraphs if one.get("Status", "").endswith(" installed")]
    if not found:
        raise Unreadable(f"{name} names no installed package: the image must have dpkg's database")
    return found


def package_url(package, system):
    """Returns the package URL (purl) of a package of `system`, the variables of os-release. Both URL and qualifiers are
    written as scanners for vulnerabilities read them: `upstream` is the source package, if it has another name or
    version."""
    quote = lambda text: urllib.parse.quote(text, safe="")
    source, _, version = package.get("Source", "").partition(" (")
    version = version.rstrip(")")
    upstream = f"{source}@{version}" if version else source
    qualifiers = {"arch": package["Architecture"], "distro": f"{system['ID']}-{system['VERSION_ID']}", "upstream": upstream}
    words = "&".join(f"{key}={quote(value)}" for key, value in qualifiers.items() if value)
    return f"pkg:deb/{system['ID']}/{quote(package['Package'])}@{quote(package['Version'])}?{words}"


def component(package, system, files=()):
    """Returns the component of a Debian package. With `files`, only these files of the package are part of the
    programs, and the component's reference differs from that of the whole package."""
    url = package_url(package, system)
    made = {"type": "library", "bom-ref": f"bundled:{url}" if files else url, "name": package["Package"],
            "version": package["Version"], "purl": url}
    if package.get("Maintainer"):
        made["supplier"] = {"name": package["Maintainer"]}
    if files:
        made["properties"] = [{"name": "maxsim:file", "value": file} for file in sorted(files)]
    return made


def status_of(names):
    """Returns the entries of these packages in this machine's dpkg database, as read_packages() does."""
    shown = subprocess.run(["dpkg-query", "--status", *names], check=True, capture_output=True, text=True).stdout
    unique = {one["Package"]: one for one in read_packages(shown, "dpkg-query --status")}
    return [unique[name] for name in sorted(unique)]


def cuda_component(build):
    """Returns the component of the CUDA runtime that is linked into the programs, or None without the CUDA backend."""
    if licences.cuda_licence(build) is None:
        return None
    nvcc = licences.cached_variable(build, "MAXSIM_NVCC")
    shown = subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True).stdout
    version = re.search(r"release [\d.]+, V([\d.]+)", shown)
    if version is None:
        raise Unreadable(f"{nvcc} --version names no version")
    return {"type": "library", "bom-ref": "bundled:cuda-runtime", "name": "cuda-runtime", "version": version[1],
            "supplier": {"name": "NVIDIA"}, "properties": [{"name": "maxsim:file", "value": "libcudart_static.a"}]}


def document(subject, components, timestamp, included=None):
    """Returns the list of `components`, which are the parts of the component `subject`. `included` is the list of one of
    these components; its parts are listed too."""
    references = [one["bom-ref"] for one in components]
    content = {**FORMAT, "metadata": {"timestamp": timestamp, "component": subject}, "components": components,
               "dependencies": [{"ref": subject["bom-ref"], "dependsOn": references}]}
    for key in ("components", "dependencies") if included else ():
        content[key] = content[key] + included[key]
    # The serial number follows from the content: the same content has the same number, and another content another one.
    serial = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(content, sort_keys=True))
    return {**content, "serialNumber": f"urn:uuid:{serial}"}


def now():
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def list_programs(build, libraries):
    """Returns the list of the programs of a build folder and of these libraries, which are paths on this machine."""
    system = read_os_release(pathlib.Path("/etc/os-release").read_text(), "/etc/os-release")
    headers = [header for header in COMPILED_IN if pathlib.Path(header).exists()]
    files = {}
    for path, package in licences.owners([*libraries, *headers]).items():
        files.setdefault(package, set()).add(pathlib.Path(path).name)
    components = [component(package, system, files[package["Package"]]) for package in status_of(files)]
    cuda = cuda_component(build)
    if cuda:
        components.append(cuda)
    subject = {"type": "application", "bom-ref": PROGRAMS_REF, "name": "maxsimd",
               "version": licences.cached_variable(build, "CMAKE_PROJECT_VERSION"),
               "licenses": [{"license": {"id": "Apache-2.0"}}],
               "properties": [{"name": "maxsim:machine", "value": platform.machine()}]}
    return document(subject, components, now())


def list_image(programs, os_release, dpkg_status):
    """Returns the list of an image with these programs, a list of list_programs(), on the base that the texts of
    two files of the image describe."""
    system = read_os_release(os_release, "os-release")
    base = sorted((component(one, system) for one in read_packages(dpkg_status, "dpkg's status")), key=lambda one: one["bom-ref"])
    application = programs["metadata"]["component"]
    distribution = {"type": "operating-system", "bom-ref": "operating-system", "name": system["ID"],
                    "version": system["VERSION_ID"]}
    subject = {**application, "type": "container", "bom-ref": IMAGE_REF}
    return document(subject, [distribution, application, *base], programs["metadata"]["timestamp"], programs)


def main():
    what, arguments = sys.argv[1:2], sys.argv[2:]
    if what == ["programs"] and len(arguments) == 3:
        libraries = pathlib.Path(arguments[1]).read_text().split()
        made = list_programs(arguments[0], libraries)
    elif what == ["image"] and len(arguments) == 4:
        programs, os_release, status = (pathlib.Path(name).read_text() for name in arguments[:3])
        made = list_image(json.loads(programs), os_release, status)
    else:
        sys.exit(__doc__)
    pathlib.Path(arguments[-1]).write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except (Unreadable, licences.NoLicence, OSError, json.JSONDecodeError) as problem:
        sys.exit(f"sbom: {problem}")

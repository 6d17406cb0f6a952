#!/usr/bin/env bash
# Makes the folder that the Dockerfile copies into the image, from a build folder: the four programs with their libraries
# (scripts/bundle.sh), the licences of the libraries, and a list of all parts (sbom.json).
#
#   scripts/packages/make-image-programs.sh BUILD_FOLDER TARGET_FOLDER
#
# The Dockerfile runs this after it has compiled the programs. To build an image of programs that are compiled already,
# without compiling them again, give the folder to the builder: --build-context programs=TARGET_FOLDER.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if [ $# != 2 ] || [ "${1#-}" != "$1" ]; then
  echo "usage: scripts/packages/make-image-programs.sh BUILD_FOLDER TARGET_FOLDER" >&2
  exit 1
fi
build=$1
target=${2%/}
python=${MAXSIM_PYTHON:-/usr/bin/python3}

scripts/bundle.sh --programs-only "$build" "$target"
mapfile -t libraries <"$target/libraries.list"
"$python" -B scripts/packages/licences.py "$build" "$target/licences" "${libraries[@]}"
"$python" -B scripts/packages/sbom.py programs "$build" "$target/libraries.list" "$target/sbom.json"
rm "$target/libraries.list"
cp LICENSE "$target/"

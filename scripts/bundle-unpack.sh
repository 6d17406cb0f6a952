#!/usr/bin/env bash
# Unpacks the bundle that this file belongs to:  unpack.sh FOLDER
# Wants tar and xz, or else Python.
set -euo pipefail
archive="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/maxsim.tar.xz"
folder=${1:?usage: unpack.sh FOLDER}

mkdir -p "$folder"
if command -v xz >/dev/null; then
  xz -dc "$archive" | tar -xf - -C "$folder"
elif command -v python3 >/dev/null; then
  python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1], "r:xz").extractall(sys.argv[2])' "$archive" "$folder"
else
  echo "unpack.sh: xz or python3 is needed" >&2
  exit 1
fi

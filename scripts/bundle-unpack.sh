#!/usr/bin/env bash
# Unpacks the bundle that this file belongs to:  unpack.sh FOLDER
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${1:?usage: unpack.sh FOLDER}

mkdir -p "$folder"
if command -v xz >/dev/null; then
  xz -dc "$here/maxsim.tar.xz"
else
  LD_LIBRARY_PATH=$here/xz "$here/xz/xz" -dc "$here/maxsim.tar.xz"
fi | tar -xf - -C "$folder"

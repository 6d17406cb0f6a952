#!/usr/bin/env bash
# Checks that every C++ and CUDA file of the repository is formatted as .clang-format says; --fix formats them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mode=(--dry-run -Werror)
if [ "${1:-}" = --fix ]; then mode=(-i); fi

# Releases of clang-format differ in small ways: 14 (Debian 12) is the one that decides.
formatter=$(command -v clang-format-14 || command -v clang-format)
mapfile -d '' -t files < <(git ls-files --cached --others --exclude-standard -z -- '*.cc' '*.h' '*.cu' '*.cuh')
printf '%s\0' "${files[@]}" | xargs -0 -n 40 -P "$(nproc)" "$formatter" "${mode[@]}"
echo "format: ${#files[@]} files"

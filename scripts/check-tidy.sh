#!/usr/bin/env bash
# Runs clang-tidy, with the checks of .clang-tidy, over our C++ sources. Each file is compiled separately, as in the
# debug preset.
#
#   scripts/check-tidy.sh [--changed-since COMMIT | --newest N | FILE...]
#
# --changed-since checks only the files that differ from COMMIT, and --newest the N files that were changed last. A file
# takes about 20 seconds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build/debug
since=""
newest=0
files=()
while [ $# -gt 0 ]; do
  case "$1" in
    --changed-since)
      since=${2:?}
      shift
      ;;
    --newest)
      newest=${2:?}
      shift
      ;;
    *) files+=("$1") ;;
  esac
  shift
done

if [ ${#files[@]} -eq 0 ]; then
  if [ -n "$since" ]; then
    mapfile -t files < <(git diff --name-only --diff-filter=d "$since" -- '*.cc')
  else
    mapfile -t files < <(git log --name-only --format= -- '*.cc' | awk 'NF && !seen[$0]++' |
      while IFS= read -r file; do if [ -f "$file" ]; then echo "$file"; fi; done)
  fi
fi
# The other presets compile several files as one.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{
  cmake --preset debug -DMAXSIM_CUDA_ROOT="$(find "$PWD/build" -maxdepth 1 -name cuda-toolkit)" &&
    cmake --build --preset debug --target maxsim_proto_sources
} >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
# Keeps only files that the build compiles. For example, no ordinary build compiles the entry point of libFuzzer.
commands=$build/compile_commands.json
mapfile -t files < <(for file in "${files[@]}"; do
  if grep -qF "\"file\": \"$PWD/$file\"" "$commands"; then echo "$file"; fi
done)
if [ "$newest" -gt 0 ]; then files=("${files[@]:0:newest}"); fi
if [ ${#files[@]} -eq 0 ]; then
  echo "tidy: 0 files"
  exit 0
fi

# clang does not know all of GCC's warning flags, which is not an error.
failed=0
# shellcheck disable=SC2016 # expanded by the inner shell
printf '%s\0' "${files[@]}" | xargs -r -0 -n 1 -P "$(nproc)" bash -c '
  clang-tidy --quiet -p "$0" --extra-arg=-Wno-unknown-warning-option "$1" 2> >(grep -vE "^[0-9]+ warnings? " >&2) ||
    { echo "tidy: $1 failed"; exit 1; }' "$build" || failed=1
echo "tidy: ${#files[@]} files"
exit $failed

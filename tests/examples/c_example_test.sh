#!/usr/bin/env bash
# Installs libmaxsim into a temporary folder, builds examples/c with the installed pkg-config file, and compares the
# example's output with the expected text.
#
#   c_example_test.sh BUILD_FOLDER
set -euo pipefail
build=$(realpath "$1")
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

compiler=${CC:-cc}
cmake --install "$build" --component library --prefix "$scratch/prefix" >/dev/null
libraries=$(find "$scratch/prefix" -name libmaxsim.so -printf %h)
export PKG_CONFIG_PATH="$libraries/pkgconfig"
[ "$(pkg-config --modversion maxsim)" = "$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")" ]
read -ra flags < <(pkg-config --cflags --libs maxsim)
"$compiler" -std=c99 -pedantic -Wall -Wextra -Werror "$root/examples/c/score.c" "${flags[@]}" -o "$scratch/score"

wanted='document 0: score 1.00, tokens 1 and 0
document 1: score 1.25, tokens 0 and 0
document 2: score 1.50, tokens 1 and 1
gradient of query token 0: 0.50 -1.00 1.00 0.00
gradient of query token 1: 0.25 -0.75 0.00 0.00'
printed=$(LD_LIBRARY_PATH="$libraries" "$scratch/score")
echo "$printed"
[ "$printed" = "$wanted" ] || { echo "c_example_test: that is not what it prints" >&2; exit 1; }

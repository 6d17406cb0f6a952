#!/usr/bin/env bash
# Runs one of examples/ against its own maxsimd, which serves the demo collection. Checks that the example prints the
# same ranking as maxsimctl. Exits with 77, which CTest reports as "skipped", if grpcurl is not installed.
#
#   example_test.sh NAME FOLDER_OF_THE_PROGRAMS [BUILD_FOLDER]
set -euo pipefail

name=$1
programs=$(realpath "$2")
build=${3:+$(realpath "$3")}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d)
server_pid=
question=8

stop() {
  if [ -n "$server_pid" ]; then
    kill -TERM "$server_pid" 2>/dev/null || true
    wait "$server_pid" 2>/dev/null || true
  fi
  rm -rf "$scratch"
}
trap stop EXIT

fail() {
  echo "example_test: $*" >&2
  exit 1
}

# prepare_NAME builds the example NAME. ask_NAME SERVER runs the example against SERVER and prints its answer.

prepare_grpcurl() {
  command -v grpcurl >/dev/null || { echo "skipped: needs grpcurl"; exit 77; }
}
ask_grpcurl() {
  "$root/examples/grpcurl/ask.sh" "$1" "$root/demo" $question
}

prepare_python() {
  python=${MAXSIM_PYTHON:-/usr/bin/python3}
  "$python" -B "$root/client/python/generate.py"
}
ask_python() {
  PYTHONPATH="$root/client/python" \
    "$python" "$root/examples/python/ask.py" "$1" "$root/demo" $question
}

# Installs the client library into a temporary folder, and builds a copy of the example outside of the repository.
prepare_cpp() {
  [ -n "$build" ] || fail "cpp wants the build folder"
  cmake --install "$build" --component client --prefix "$scratch/prefix" >/dev/null
  cp -r "$root/examples/cpp" "$scratch/source"
  cmake -S "$scratch/source" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$scratch/prefix" >"$scratch/cmake.log" 2>&1 ||
    { cat "$scratch/cmake.log" >&2; fail "the example is not configured"; }
  cmake --build "$scratch/build" >"$scratch/cmake.log" 2>&1 ||
    { cat "$scratch/cmake.log" >&2; fail "the example is not built"; }
}
ask_cpp() {
  "$scratch/build/ask" "$1" "$root/demo" $question
}

prepare_go() {
  [ -n "$build" ] || fail "go needs the build folder"
  "$root/tests/support/go.sh" "$build/tests/go" build "$scratch/ask" examples/go
}
ask_go() {
  "$scratch/ask" "$1" "$root/demo" $question
}

declare -F "prepare_$name" >/dev/null || fail "no example $name"
"prepare_$name"

"$root/demo/build.sh" --bin "$programs" --output "$scratch/collection"
"$programs/maxsimd" --collection "demo=$scratch/collection" --backend cpu --grpc.address 127.0.0.1:0 \
  --http.address 127.0.0.1:0 --server.port_file "$scratch/ports" --server.shutdown_delay 0s >"$scratch/log" 2>&1 &
server_pid=$!
for ((tenths = 0; tenths < 600; ++tenths)); do
  [ ! -e "$scratch/ports" ] || break
  kill -0 "$server_pid" 2>/dev/null || { cat "$scratch/log" >&2; fail "maxsimd ended before it was ready"; }
  sleep 0.1
done
port=$(sed -n 's/.*"grpc_port": *\([0-9]*\).*/\1/p' "$scratch/ports")
server=127.0.0.1:$port

wanted=$("$programs/maxsimctl" --server "$server" rerank --collection demo --all --top-k 5 --json \
  --query "$root/demo/query_tokens.npy" --query-lengths "$root/demo/query_lengths.npy" --query-index $question |
  grep -oE '"id": *"[^"]*"' | cut -d '"' -f 4)
[ "$(wc -l <<<"$wanted")" = 5 ] || fail "maxsimctl does not rank five documents: $wanted"

answer=$("ask_$name" "$server") || fail "the example failed"
echo "$answer"
if [ "$name" = grpcurl ]; then
  ranked=$(sed -n '/"stringIds"/,/]/p' <<<"$answer" | grep -oE '"[a-z]+-[0-9]+"' | tr -d '"')
else
  ranked=$(awk '{ print $2 }' <<<"$answer")
fi
[ "$ranked" = "$wanted" ] || fail "ranked $(tr '\n' ' ' <<<"$ranked")and not $(tr '\n' ' ' <<<"$wanted")"
# The server must still run after the example's calls.
kill -0 "$server_pid" || fail "maxsimd has ended"

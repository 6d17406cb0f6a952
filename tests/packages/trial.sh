#!/bin/bash
# Runs all four programs of a folder as a new user would. PATH is only this folder, and HOME is the only other variable.
# Builds a collection of the demo's vectors, serves it on the CPU, queries it, checks its scores, runs a load test, and
# stops the server.
#
#   tests/packages/trial.sh PROGRAM_FOLDER DEMO_FOLDER
#
# Exits with 0 if everything worked.
set -euo pipefail
[ $# = 2 ] || { echo "usage: tests/packages/trial.sh PROGRAM_FOLDER DEMO_FOLDER" >&2; exit 2; }
programs=$1
demo=$2
work=$(mktemp -d)
server=
finish() {
  local rc=$?
  if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi
  [ $rc = 0 ] || { cat "$work/log" 2>/dev/null || true; echo "trial: FAILED in: $doing" >&2; }
  rm -rf "$work"
}
trap finish EXIT

run() {
  local name=$1
  shift
  doing="$name $*"
  env -i PATH="$programs" HOME="${HOME:-/}" "$programs/$name" "$@"
}

for name in maxsimd maxsimctl maxsim-shard maxsim-loadtest; do
  run "$name" --version
  run "$name" --help >"$work/help"
  grep -q "$name" "$work/help"
done

run maxsim-shard build --quiet --name demo --output "$work/demo" \
  --tokens "$demo/tokens.npy" --lengths "$demo/lengths.npy" --ids "$demo/passages.jsonl"
run maxsim-shard verify "$work/demo"

# Does not use run(), so that $! is the server's process id, to which signals are sent.
doing="maxsimd --collection demo=..."
env -i PATH="$programs" HOME="${HOME:-/}" "$programs/maxsimd" --collection "demo=$work/demo" --backend cpu --grpc.address 127.0.0.1:0 \
  --http.address 127.0.0.1:0 --server.shutdown_delay 0s --server.port_file "$work/ports.json" >"$work/log" 2>&1 &
server=$!
for ((tenths = 0; tenths < 600; tenths++)); do
  [ ! -s "$work/ports.json" ] || break
  kill -0 "$server"
  sleep 0.1
done
address=127.0.0.1:$(sed -E 's/.*"grpc_port":([0-9]+).*/\1/' "$work/ports.json")
# If a launcher started the server, it must have used exec, so that the server has the launcher's process id.
[ "$(sed -E 's/.*"pid":([0-9]+).*/\1/' "$work/ports.json")" = "$server" ]

queries=(--query-lengths "$demo/query_lengths.npy")
run maxsimctl --server "$address" rerank --collection demo --all --payload --top-k 3 --query "$demo/query_tokens.npy" \
  "${queries[@]}" --query-index 0 | tee "$work/answer"
# The question with index 0 is: Why do some volcanoes explode while others only pour out lava?
grep -qE '^ *1 +.*volcano-1' "$work/answer"
run maxsimctl --server "$address" verify --collection demo --queries "$demo/query_tokens.npy" "${queries[@]}"
run maxsim-loadtest --target "$address" --collection demo --candidates all --concurrency 2 --warmup 0s --duration 1s \
  --queries "$demo/query_tokens.npy" "${queries[@]}" >"$work/load" 2>&1

doing="the server's stop"
kill -TERM "$server"
wait "$server"
server=
echo "trial: everything ran from $programs"

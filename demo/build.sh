#!/usr/bin/env bash
# Builds the bundled collection, named "demo", with maxsim-shard, unless the folder holds it already.
#
#   demo/build.sh [--bin DIR] [--output DIR]
#
#   --bin DIR      folder of maxsim-shard (default: build/release/bin, or bin in a bundle)
#   --output DIR   folder of the collection (default: build/demo-collection)
set -euo pipefail

demo=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$demo")
bin=$root/build/release/bin
if [ ! -d "$bin" ] && [ -x "$root/bin/maxsim-shard" ]; then bin=$root/bin; fi
output=$root/build/demo-collection

die() {
  echo "demo/build.sh: $*" >&2
  exit 1
}

while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help)
      sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --bin | --output)
      [ $# -ge 2 ] || die "$1 wants a folder"
      if [ "$1" = --bin ]; then bin=$2; else output=$2; fi
      shift 2
      ;;
    *) die "unknown argument $1 (see --help)" ;;
  esac
done
[ -x "$bin/maxsim-shard" ] || die "$bin/maxsim-shard is not there: run 'make build', or name the folder with --bin"

fresh=1
for input in "$demo/tokens.npy" "$demo/lengths.npy" "$demo/passages.jsonl" "$bin/maxsim-shard"; do
  [ "$output/collection.json" -nt "$input" ] || fresh=0
done
[ $fresh = 0 ] || exit 0

mkdir -p "$(dirname "$output")"
"$bin/maxsim-shard" build --quiet --name demo --output "$output" \
  --tokens "$demo/tokens.npy" --lengths "$demo/lengths.npy" --ids "$demo/passages.jsonl"

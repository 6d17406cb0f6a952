#!/usr/bin/env bash
# Builds the bundled collection, named "demo", with maxsim-shard, unless the folder DIR holds it already. Also writes
# DIR.questions.jsonl: the bundled questions with their vectors, for maxsimd --http.console_questions.
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

# write_questions FILE: writes the lines of queries.jsonl to FILE, each with one more member, "query": the question's
# vectors in the form that /v1/rerank takes.
write_questions() {
  local tokens=$demo/query_tokens.npy lengths dim=128 row_bytes position line length
  # An array's data follow its header, whose length is in the two bytes at offset 8 (NumPy's format 1.0).
  data_offset() { echo $((10 + $(od -An -tu2 -j8 -N2 "$1"))); }
  row_bytes=$((dim * 2)) # float16
  position=$(($(data_offset "$tokens") + 1))
  lengths=$(od -An -v -td4 -w4 -j"$(data_offset "$demo/query_lengths.npy")" "$demo/query_lengths.npy")
  while IFS= read -r line && read -r length <&3; do
    printf '%s, "query": {"dtype": "f16", "shape": [%d, %d], "data": "%s"}}\n' "${line%\}}" "$length" "$dim" \
      "$(tail -c "+$position" "$tokens" | head -c $((length * row_bytes)) | base64 -w 0)"
    position=$((position + length * row_bytes))
  done <"$demo/queries.jsonl" 3<<<"$lengths" >"$1.partial"
  mv "$1.partial" "$1"
}

questions=${output%/}.questions.jsonl
mkdir -p "$(dirname "$output")"
if [ "$demo/queries.jsonl" -nt "$questions" ] || [ "${BASH_SOURCE[0]}" -nt "$questions" ]; then
  write_questions "$questions"
fi

fresh=1
for input in "$demo/tokens.npy" "$demo/lengths.npy" "$demo/passages.jsonl" "$bin/maxsim-shard"; do
  [ "$output/collection.json" -nt "$input" ] || fresh=0
done
[ $fresh = 0 ] || exit 0

"$bin/maxsim-shard" build --quiet --name demo --output "$output" \
  --tokens "$demo/tokens.npy" --lengths "$demo/lengths.npy" --ids "$demo/passages.jsonl"

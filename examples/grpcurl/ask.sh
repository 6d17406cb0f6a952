#!/usr/bin/env bash
# Asks a maxsimd one of the bundled questions with grpcurl, which learns the messages from the server's reflection: no
# .proto file, no generated code. Prints the answer as JSON.
#
#   ask.sh [SERVER [DEMO_FOLDER [QUESTION]]]      default: localhost:7070 demo 8
#
# grpcurl is no Debian package: https://github.com/fullstorydev/grpcurl has programs and sources.
set -euo pipefail

server=${1:-localhost:7070}
demo=${2:-demo}
question=${3:-8}
dim=128

if ! command -v grpcurl >/dev/null; then
  echo "ask.sh: there is no grpcurl here; https://github.com/fullstorydev/grpcurl/releases has it" >&2
  exit 3
fi

# The elements of a .npy file (format 1.0) follow its header. Bytes 8 and 9 hold the header's length.
header_bytes() { od -An -tu2 -j8 -N2 "$1" | awk '{ print $1 + 10 }'; }

# The token vectors of all questions follow one another in a float16 [192, 128] array. An int32 [15] array has the
# number of vectors of each question.
lengths=$demo/query_lengths.npy
read -r first count < <(od -An -v -w4 -td4 -j"$(header_bytes "$lengths")" "$lengths" |
  awk -v question="$question" 'NR <= question { first += $1 } NR == question + 1 { print first + 0, $1 }') ||
  { echo "ask.sh: $demo has no question $question" >&2; exit 1; }
vectors=$demo/query_tokens.npy
data=$(tail -c +$(($(header_bytes "$vectors") + first * dim * 2 + 1)) "$vectors" | head -c $((count * dim * 2)) |
  base64 -w 0 || true)

grpcurl -plaintext -d @ "$server" maxsim.v1.Reranker/Rerank <<END
{
  "collection": "demo",
  "queries": [{"tokens": {"dtype": "DATA_TYPE_F16", "numTokens": $count, "dim": $dim, "data": "$data"}}],
  "candidates": {"wholeCollection": {}},
  "topK": 5
}
END

#!/usr/bin/env bash
# Generates the Go package maxsimv1 into maxsim/v1 of this folder, with protoc, protoc-gen-go and protoc-gen-go-grpc.
#
#   generate.sh [FOLDER_OF_THE_PROTOS]      default: ../../proto
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
protos=$(realpath "${1:-$here/../../proto}")
cd "$here"

package='example.com/ask/maxsim/v1;maxsimv1'
options=module=example.com/ask
files=(maxsim/v1/rerank.proto maxsim/v1/admin.proto maxsim/v1/documents.proto)
for file in "${files[@]}"; do options+=",M$file=$package"; done
protoc -I "$protos" --go_out=. --go_opt="$options" --go-grpc_out=. --go-grpc_opt="$options" "${files[@]}"

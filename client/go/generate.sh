#!/usr/bin/env bash
# Generates the package maxsimv1 of the Go client from proto/. Run it after a change of proto/, and commit the result:
# users of a Go module get the files of the repository and run no generator. Needs protoc, protoc-gen-go and
# protoc-gen-go-grpc; the versions of Debian 12 make stubs that all later releases of gRPC and protobuf accept.
#
#   client/go/generate.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

module=$(sed -n 's/^module //p' go.mod)
options=module=$module
files=(maxsim/v1/rerank.proto maxsim/v1/admin.proto maxsim/v1/documents.proto)
for file in "${files[@]}"; do options+=",M$file=$module/maxsimv1;maxsimv1"; done
rm -rf maxsimv1
protoc -I ../../proto --go_out=. --go_opt="$options" --go-grpc_out=. --go-grpc_opt="$options" "${files[@]}"

#!/usr/bin/env bash
# Runs the Go tool with Debian's Go packages, which are found through GOPATH. Nothing is downloaded.
#
#   go.sh FOLDER build OUTPUT SOURCES     builds the program in SOURCES, a folder of the repository such as examples/go
#   go.sh FOLDER test                     checks the Go client: format, vet, tests, and that its stubs are current
#
# FOLDER keeps Go's build cache. It is made if it is missing.
set -euo pipefail
mkdir -p "$1"
cache=$(realpath "$1")
command=$2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

module=$(sed -n 's/^module //p' "$root/client/go/go.mod")
workspace=$scratch/src/${module%/client/go}
folders=(client/go examples/go tests/conformance/drivers/go)
for folder in "${folders[@]}"; do
  mkdir -p "$workspace/$(dirname "$folder")"
  cp -r "$root/$folder" "$workspace/$folder"
done
# With -trimpath, results in the cache do not depend on the temporary folder.
export GO111MODULE=off GOPATH=$scratch:/usr/share/gocode GOCACHE=$cache/cache CGO_ENABLED=0
export GOFLAGS="-trimpath ${GOFLAGS:-}"

cd "$workspace"
case $command in
  build)
    output=$(realpath -m "$3")
    go build -o "$output" "./$4"
    ;;
  test)
    unformatted=$(gofmt -l "${folders[@]}")
    if [ -n "$unformatted" ]; then
      echo "gofmt -w must format these files:" >&2
      echo "$unformatted" >&2
      exit 1
    fi
    go vet "${folders[@]/#/./}"
    MAXSIM_PROTO=$root/proto go test -count=1 ./client/go
    ;;
  *)
    echo "go.sh: unknown command $command" >&2
    exit 2
    ;;
esac

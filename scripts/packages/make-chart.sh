#!/usr/bin/env bash
# Packs the Helm chart of deploy/helm/maxsim into one file, with IMAGE_REPOSITORY:IMAGE_TAG as its default image.
#
#   scripts/packages/make-chart.sh TARGET_FOLDER IMAGE_REPOSITORY IMAGE_TAG
#
# Prints the file's path. HELM is the path of the program helm, if it is not on the PATH.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

die() {
  echo "make-chart: $*" >&2
  exit 1
}
if [ $# != 3 ] || [ "${1#-}" != "$1" ]; then
  die "usage: scripts/packages/make-chart.sh TARGET_FOLDER IMAGE_REPOSITORY IMAGE_TAG"
fi
target=$1
# sed writes both into a YAML file, so they must have no character that sed or YAML interprets.
[[ $2 =~ ^[A-Za-z0-9][A-Za-z0-9._:/-]*$ ]] || die "'$2' is no name of an image's repository"
[[ $3 =~ ^[A-Za-z0-9_][A-Za-z0-9._-]*$ ]] || die "'$3' is no tag of an image"

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r deploy/helm/maxsim "$copy/"
values=$copy/maxsim/values.yaml
sed -i -e "s|^  repository: maxsim\$|  repository: $2|" -e "s|^  tag: latest\$|  tag: \"$3\"|" "$values"
grep -qxF "  repository: $2" "$values" || die "values.yaml has no line '  repository: maxsim'"
grep -qxF "  tag: \"$3\"" "$values" || die "values.yaml has no line '  tag: latest'"
mkdir -p "$target"
"${HELM:-helm}" package "$copy/maxsim" --destination "$target" | sed 's/^.*: //'

#!/usr/bin/env bash
# Pushes the images of a release to a registry: one image for each variant and machine, and for each variant one name
# that stands for all machines.
#
#   scripts/packages/publish-images.sh REGISTRY VERSION FOLDER
#
# REGISTRY is host and path, for example registry.example/acme: the images are pushed to REGISTRY/maxsim. FOLDER has image-VARIANT-ARCH.tar (docker's
# archive format) and sbom-VARIANT-ARCH.json, where VARIANT is cpu or cuda, and ARCH is amd64 or arm64. The names are
# maxsim:VERSION and maxsim:latest for cuda, maxsim:VERSION-cpu and maxsim:cpu for cpu.
#
# Writes FOLDER/published.txt with a line for each image and each name: REGISTRY/maxsim@DIGEST, and the file of its list of
# parts. A name that stands for all machines has "-" instead of the file. REGISTRY_AUTH_FILE names the file of the registry's credentials, which `docker login`
# writes. PUSH_OPTIONS has further options of `buildah push`.
set -euo pipefail

die() {
  echo "publish-images: $*" >&2
  exit 1
}
if [ $# != 3 ] || [ "${1#-}" != "$1" ]; then die "usage: scripts/packages/publish-images.sh REGISTRY VERSION FOLDER"; fi
repository=${1%/}/maxsim
version=$2
folder=${3%/}
read -ra options <<<"${PUSH_OPTIONS:-}"
digest=$(mktemp)
trap 'rm -f "$digest"' EXIT

published=$folder/published.txt
: >"$published"
for variant in cuda cpu; do
  case $variant in
    cuda) names=("$version" latest) ;;
    cpu) names=("$version-cpu" cpu) ;;
  esac
  list=localhost/maxsim-$variant:$version
  buildah manifest rm "$list" >/dev/null 2>&1 || true
  buildah manifest create "$list" >/dev/null
  for arch in amd64 arm64; do
    image=$folder/image-$variant-$arch.tar
    sbom=sbom-$variant-$arch.json
    for file in "$image" "$folder/$sbom"; do [ -f "$file" ] || die "$file is not there"; done
    id=$(buildah pull --quiet "docker-archive:$image")
    built_for=$(buildah inspect --type image --format '{{.Docker.Architecture}}' "$id")
    [ "$built_for" = "$arch" ] || die "$image is an image for $built_for, not for $arch"
    buildah push --quiet "${options[@]}" --format v2s2 --digestfile "$digest" "$id" "docker://$repository:$version-$variant-$arch"
    reference=$repository@$(cat "$digest")
    buildah manifest add "$list" "$id" >/dev/null
    echo "$reference $sbom" >>"$published"
  done
  for name in "${names[@]}"; do
    buildah manifest push --quiet "${options[@]}" --all --format v2s2 --digestfile "$digest" "$list" "docker://$repository:$name"
    echo "publish-images: $repository:$name is $(cat "$digest")"
  done
  echo "$repository@$(cat "$digest") -" >>"$published"
done

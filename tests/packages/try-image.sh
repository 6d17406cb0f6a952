#!/usr/bin/env bash
# Builds the CPU image from the Dockerfile on a fresh Debian 12, and tests it with image_trial.py. Needs no daemon and
# no registry: buildah builds the image, and debootstrap makes the base.
#
#   tests/packages/try-image.sh [PROGRAMS]        as root
#
# PROGRAMS is a folder that scripts/packages/make-image-programs.sh made on Debian 12. Without it, the Dockerfile
# compiles the programs, which takes about 15 minutes on 2 cores. JOBS limits the number of compilers at a time.
#
# The images are in build/try-image, and are removed at the end. The image's component list sbom.json stays there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

die() {
  echo "try-image: $*" >&2
  exit 1
}
[ $# -le 1 ] || die "usage: tests/packages/try-image.sh [PROGRAMS]"
[ "$(id -u)" = 0 ] || die "the image's root file system is mounted, which needs root"
options=()
if [ $# = 1 ]; then
  [ -f "$1/sbom.json" ] || die "$1/sbom.json is not there: make image-programs"
  options=(--build-context "programs=$1")
elif [ -n "${JOBS:-}" ]; then
  options=(--build-arg "JOBS=$JOBS")
fi

folder=$PWD/build/try-image
base=$(tests/packages/debian-base.sh "$PWD/build/try-packages")
mkdir -p "$folder"
export CONTAINERS_STORAGE_CONF=$folder/storage.conf BUILDAH_ISOLATION=chroot BUILDER=buildah
# The driver vfs copies files, so that it needs nothing of the file system below.
printf '[storage]\ndriver = "vfs"\ngraphroot = "%s/images"\nrunroot = "%s/run"\n' "$folder" "$folder" >"$folder/storage.conf"
remove() { rm -rf --one-file-system "$folder/images" "$folder/run" "$folder/base.tar"; }
trap remove EXIT
remove

# Leaves out what Debian's slim images leave out: manuals, translations, and documentation other than licences.
tar -C "$base" --numeric-owner --sort=name --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' \
  --exclude='./usr/share/doc/*/[!c]*' --exclude='./usr/share/locale/*' --exclude='./usr/share/info/*' \
  --exclude='./usr/share/man/*' --exclude='./usr/share/groff/*' --exclude='./usr/share/lintian/*' \
  --exclude='./var/log/*.log' -cf "$folder/base.tar" .
container=$(buildah from scratch)
buildah add --quiet "$container" "$folder/base.tar" / >/dev/null
buildah commit --quiet --rm --format docker "$container" localhost/base:latest >/dev/null

scripts/docker-build.sh 0 --pull-never --build-arg BUILD_BASE=localhost/base:latest \
  --build-arg RUNTIME_BASE=localhost/base:latest "${options[@]}" >"$folder/build.log" 2>&1 ||
  { tail -30 "$folder/build.log" >&2; die "the image cannot be built, see $folder/build.log"; }
tests/packages/image_trial.py --sbom "$folder/sbom.json" localhost/maxsim:cpu
echo "try-image: $folder/sbom.json lists the image's parts"

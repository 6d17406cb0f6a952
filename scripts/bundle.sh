#!/usr/bin/env bash
# Packs a build into one small folder that runs elsewhere: any Linux on the same kind of processor with the same or a
# newer glibc, with or without a GPU. Binaries are stripped and find their libraries in ../lib. It packs tests only if
# they run on this machine, so not those of a cross-compiled build (cmake/arm64.cmake).
#
#   scripts/bundle.sh [--programs-only | --manylinux] BUILD_FOLDER BUNDLE_FOLDER
#
#   BUNDLE_FOLDER/run-tests.sh       unpacks and runs the tests
#   BUNDLE_FOLDER/unpack.sh FOLDER   unpacks everything:
#
#   bin/    maxsimd, maxsimctl, maxsim-shard, maxsim-loadtest and the benchmarks
#   lib/    every shared library but glibc's and the driver's
#   tests/  the test programs     demo/ config/ ...   the files that they read     run-tests.sh   runs the tests
#
# --programs-only makes only BUNDLE_FOLDER/bin and lib, with the four programs and without tests and data, for the image
# (scripts/packages/make-image-programs.sh). BUNDLE_FOLDER/libraries.list has the paths of the libraries that it copied.
# --manylinux does the same for a wheel (scripts/packages/make-wheels.sh). It also leaves out libstdc++ and libgcc, which
# every manylinux platform has, and searches BUNDLE_FOLDER/lib before LD_LIBRARY_PATH.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

max_mib=44

die() {
  echo "bundle: $*" >&2
  exit 1
}

programs_only=0
manylinux=0
case "${1:-}" in
  --programs-only) programs_only=1 ;;
  --manylinux)
    programs_only=1
    manylinux=1
    ;;
  *) set -- "" "$@" ;;
esac
shift
[ $# = 2 ] || die "usage: scripts/bundle.sh [--programs-only | --manylinux] BUILD_FOLDER BUNDLE_FOLDER"
build=${1%/}
bundle=${2%/}
[ -d "$build/bin" ] || die "$build/bin is not there: build first"
case "$bundle" in
  build/?* | /*/?*) ;;
  *) die "the bundle's folder must be under build/, or an absolute path: it is replaced" ;;
esac

# cached NAME: the value of a variable in CMake's cache, if there is one.
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt" 2>/dev/null || true; }
strip=$(cached CMAKE_STRIP)
strip=${strip:-strip}
sysroot=$(cached MAXSIM_ARM64_SYSROOT)
if [ -n "$sysroot" ]; then
  sysroot=$(realpath "$sysroot")
  qemu=$(cached MAXSIM_QEMU_ARM64)
  [ -x "$qemu" ] || die "qemu, which finds the libraries of cross-compiled programs, is not there: run scripts/setup.sh arm64"
  [ $programs_only = 1 ] || die "$build is cross-compiled, so its tests cannot be packed: use --programs-only or --manylinux"
fi
# list_libraries FILE...: prints what ldd prints. For cross-compiled files, qemu runs their loader, which prints the paths as
# they are inside the folder of arm64 libraries. sed adds the folder's own path.
list_libraries() {
  local file
  if [ -z "$sysroot" ]; then
    ldd "$@"
    return
  fi
  for file in "$@"; do
    "$qemu" -L "$sysroot" -E LD_TRACE_LOADED_OBJECTS=1 "$file" | sed -E "s#=> (/usr)?/lib/#=> $sysroot\\1/lib/#"
  done
}

staging=$bundle.new
rm -rf "$staging"
mkdir -p "$staging"/{bin,lib}

# Test programs. Copies every test program that CTest knows, except those labelled unbundled, and writes their labels
# for run-tests.sh.
if [ $programs_only = 1 ]; then
  for name in maxsimd maxsimctl maxsim-shard maxsim-loadtest; do cp "$build/bin/$name" "$staging/bin/"; done
else
  find "$build/bin" -maxdepth 1 -type f -executable -exec cp -t "$staging/bin" {} +
fi
tests_with_label() {
  # CTest runs a program with SHARDS as several tests, NAME_1 and so on.
  ctest --test-dir "$build" -N ${1:+-L "$1"} -LE '^unbundled$' |
    sed -nE 's/^ *Test *#[0-9]*: //; T; s/(_test)_[0-9]+$/\1/; p' | uniq
}
if [ $programs_only = 0 ]; then
  mkdir "$staging/tests"
  while read -r name; do
    if [ -x "$build/tests/$name" ]; then
      cp "$build/tests/$name" "$staging/tests/"
      # If it is a script, the shared program that it runs is copied too.
      program=$(sed -n 's/^# program: //p' <(head -c 500 "$build/tests/$name" | tr -d '\0'))
      if [ -n "$program" ]; then cp -u "$build/tests/$program" "$staging/tests/"; fi
      echo "$name"
    fi
  done < <(tests_with_label "") >"$staging/tests/all.list"
  for label in gpu concurrent service; do
    tests_with_label "^$label\$" | { grep -xFf - "$staging/tests/all.list" || true; } >"$staging/tests/$label.list"
  done
fi

# Libraries: all that the loader finds here, except those that the target machine must have.
everywhere='ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv'
if [ $manylinux = 1 ]; then everywhere+='|libstdc\+\+|libgcc_s'; fi
from_the_machine="^($everywhere|libnss_.*|libnsl|libutil|libcuda|libnvidia-.*)\.so"
# Excludes the scripts of tests in shared programs, because they are text.
mapfile -t programs < <(find "$staging" -type f -executable ! -exec grep -Iq . {} \; -print)
list_libraries "${programs[@]}" | awk '/=> not found/ { print "MISSING " $1 } /=> \// { print $3 }' | sort -u >"$staging/closure"
if grep '^MISSING' "$staging/closure"; then die "libraries are missing"; fi
while read -r path; do
  [[ $(basename "$path") =~ $from_the_machine ]] && continue
  cp -L "$path" "$staging/lib/"
  echo "$path"
done <"$staging/closure" >"$staging/libraries.list"
rm "$staging/closure"
[ $programs_only = 1 ] || rm "$staging/libraries.list"
chmod u+w "$staging"/lib/*

mapfile -t libraries < <(find "$staging/lib" -type f)
"$strip" --strip-all "${programs[@]}"
"$strip" --strip-unneeded "${libraries[@]}"
rpath=(--set-rpath)
if [ $manylinux = 1 ]; then rpath=(--force-rpath --set-rpath); fi
# shellcheck disable=SC2016 # $ORIGIN is the loader's
for file in "${programs[@]}"; do patchelf "${rpath[@]}" '$ORIGIN/../lib' "$file"; done
# shellcheck disable=SC2016
for file in "${libraries[@]}"; do patchelf "${rpath[@]}" '$ORIGIN' "$file"; done

# Files that programs and tests read, at their places below the top folder (what is in git, and the built collection).
copy_data() {
  git ls-files -z -- config demo deploy tests 'docs/*.md' README.md LICENSE | while IFS= read -r -d '' file; do
    case "$file" in
      *.cc | *.h | *.cu | *CMakeLists.txt) continue ;;
    esac
    [ -f "$file" ] || continue
    mkdir -p "$staging/$(dirname "$file")"
    cp "$file" "$staging/$file"
  done
  cp scripts/bundle-tests.sh "$staging/run-tests.sh"
}
if [ $programs_only = 0 ]; then copy_data; fi

{
  git describe --always --dirty 2>/dev/null || echo unknown
  echo "glibc $(getconf GNU_LIBC_VERSION | cut -d' ' -f2) or newer"
} >"$staging/VERSION"

# No program may still load a library from outside the bundle: this runs the loader on all of them.
if list_libraries "${programs[@]}" | awk '/=> \// { print $3 }' |
  grep -v "^$(realpath "$staging")/" | grep -vE "/($everywhere)\.so"; then
  die "the libraries above are not in the bundle"
fi

if [ $programs_only = 1 ]; then
  rm -rf "$bundle"
  mv "$staging" "$bundle"
  echo "bundle: $bundle, ${#programs[@]} programs"
  exit 0
fi

# Test programs have most of their code in common. One archive whose dictionary of 64 MiB spans several programs stores
# this code only once. With depth=3, xz packs 263 MiB in 22 s to 24.9 MiB; with depth=8 in 27 s to 24.6 MiB.
packed=$bundle.packed
rm -rf "$packed"
mkdir "$packed"
tar -C "$staging" --sort=name --owner=0 --group=0 --numeric-owner -cf - . |
  xz -T1 --lzma2=preset=6,dict=64MiB,mf=hc4,mode=fast,nice=32,depth=3 >"$packed/maxsim.tar.xz"
cp scripts/bundle-unpack.sh "$packed/unpack.sh"
cp scripts/bundle-run-tests.sh "$packed/run-tests.sh"
cp "$staging/VERSION" "$packed/"
# xz itself, for machines without it.
mkdir "$packed/xz"
cp -L "$(command -v xz)" "$packed/xz/xz"
ldd "$packed/xz/xz" | awk '/liblzma/ { print $3 }' | xargs -r cp -L -t "$packed/xz"
unpacked_mib=$(du -sm --apparent-size "$staging" | cut -f1)
rm -rf "$staging"

kib=$(du -sk --apparent-size "$packed" | cut -f1)
if [ "$kib" -gt $((max_mib * 1024)) ]; then
  die "$packed has $((kib / 1024)) MiB, over the limit of $max_mib MiB"
fi
rm -rf "$bundle"
mv "$packed" "$bundle"
echo "bundle: $bundle, $((kib / 1024)) MiB ($unpacked_mib MiB unpacked), ${#programs[@]} programs"

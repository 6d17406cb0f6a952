#!/usr/bin/env bash
# Downloads the CUDA compiler from NVIDIA's wheels on PyPI into a folder, for a machine without a toolkit (about 100
# MB to download, 300 MB on disk). Needs no root, and writes nothing outside the folder.
#
#   scripts/fetch-cuda.sh [--arm64] [FOLDER]        FOLDER: build/cuda-toolkit
#   scripts/fetch-cuda.sh --if-wanted auto|1|0      what `make setup` calls: with 1 when there is no nvcc; with auto when
#                                                   there is no nvcc and an NVIDIA driver is there
#
# The result is laid out as a toolkit (bin, include, lib64, nvvm) for -DMAXSIM_CUDA_ROOT=FOLDER. With --arm64 it also has
# the runtime library for 64-bit Arm (targets/aarch64-linux), with which nvcc cross-compiles (cmake/arm64.cmake).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# CUDA 13.0 runs on every driver from 580 on. All five belong to one release.
release='13.0.*'
wheels=(nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-cccl nvidia-cuda-crt nvidia-nvvm)

target=build/cuda-toolkit

has_nvcc() {
  command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ] || [ -x /usr/local/cuda/bin/nvcc ] ||
    { [ -x "$target/bin/nvcc" ] && [ -f "$target/EULA.txt" ]; }
}
has_driver() {
  [ -e /proc/driver/nvidia/version ] || [ -e /dev/nvidiactl ] || [ -e /dev/dxg ]
}

optional=0
arm64=0
if [ "${1:-}" = --arm64 ]; then
  arm64=1
  shift
fi
case "${1:-}" in
  --if-wanted)
    case "${2:-auto}" in
      1) has_nvcc && exit 0 ;;
      0) exit 0 ;;
      auto)
        if has_nvcc || ! has_driver; then exit 0; fi
        optional=1
        echo "setup: an NVIDIA driver and no nvcc: bringing the compiler from PyPI (CUDA=0 leaves it out)"
        ;;
      *)
        echo "fetch-cuda: --if-wanted takes auto, 1 or 0, not '$2'" >&2
        exit 1
        ;;
    esac
    ;;
  -*)
    echo "fetch-cuda: unknown option $1" >&2
    exit 1
    ;;
  ?*) target=$1 ;;
esac

# give_up TEXT: prints TEXT and ends the script, because there is no compiler. It ends with success, so that the build
# goes on for the CPU, unless CUDA was asked for.
give_up() {
  echo "fetch-cuda: $1" >&2
  if [ "$optional" = 1 ]; then
    echo "fetch-cuda: going on without the CUDA backend" >&2
    exit 0
  fi
  exit 1
}

case "$(uname -m)" in
  x86_64) ;;
  aarch64) [ "$arm64" = 0 ] || give_up "this machine is arm64 itself, so it needs no --arm64" ;;
  *) give_up "only for x86-64 and arm64, this is $(uname -m)" ;;
esac
scripts/setup.sh cuda-from-pypi || give_up "python3 with pip is needed"
if [ "$arm64" = 1 ]; then scripts/setup.sh arm64 || give_up "Debian's cross compiler is needed"; fi

mkdir -p "$(dirname "$target")"
staging=$(mktemp -d "$target.XXXXXX")
trap 'rm -rf "$staging"' EXIT
echo "fetch-cuda: ${wheels[*]} at $release"
python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$staging/wheels" "${wheels[@]/%/==$release}" ||
  give_up "pip could not download the wheels"
for wheel in "$staging"/wheels/*.whl; do
  python3 -m zipfile -e "$wheel" "$staging/unpacked"
done
root=$staging/unpacked/nvidia/cu13
if ! [ -f "$root/bin/nvcc" ] || ! [ -f "$root/nvvm/bin/cicc" ]; then
  give_up "the wheels hold no nvidia/cu13/bin/nvcc"
fi

# zipfile drops the permissions. nvcc.profile looks for libraries in lib64, the wheels have them in lib.
find "$root/bin" "$root/nvvm/bin" -type f -exec chmod +x {} +
ln -s lib "$root/lib64"
ln -s libcudart.so.13 "$root/lib/libcudart.so"
# Keeps the licence of the CUDA runtime: packages of the programs contain the runtime (scripts/packages/licences.py).
cp "$staging"/unpacked/nvidia_cuda_runtime-*.dist-info/licenses/License.txt "$root/EULA.txt"

# If there is a folder targets/, nvcc looks there for the headers and the runtime library of each kind of machine. The headers
# are the same for all, so these are links.
if [ "$arm64" = 1 ]; then
  python3 -m pip download --quiet --no-deps --only-binary :all: --platform manylinux2014_aarch64 \
    --dest "$staging/arm64-wheels" "nvidia-cuda-runtime==$release" || give_up "pip could not download the runtime for arm64"
  python3 -m zipfile -e "$staging"/arm64-wheels/*.whl "$staging/arm64"
  mkdir -p "$root"/targets/{aarch64,x86_64}-linux
  mv "$staging/arm64/nvidia/cu13/lib" "$root/targets/aarch64-linux/lib"
  ln -s libcudart.so.13 "$root/targets/aarch64-linux/lib/libcudart.so"
  ln -s ../../include "$root/targets/aarch64-linux/include"
  ln -s ../../include ../../lib "$root/targets/x86_64-linux/"
fi

# Tests the compiler: compiles code for Hopper that uses CUB, and links it into a program. (The program would need a GPU
# to run, but not to be built.)
cat >"$staging/probe.cu" <<'PROBE'
#include <cub/cub.cuh>
#include <cuda_fp16.h>
__global__ void Sum(const float* in, float* out) {
  using Reduce = cub::BlockReduce<float, 128>;
  __shared__ typename Reduce::TempStorage storage;
  const float sum = Reduce(storage).Sum(in[threadIdx.x]);
  if (threadIdx.x == 0) *out = sum;
}
int main() {
  Sum<<<1, 128>>>(nullptr, nullptr);
  return cudaPeekAtLastError() == cudaSuccess;
}
PROBE
"$root/bin/nvcc" -std=c++20 -arch=sm_90a -cudart static -o "$staging/probe" "$staging/probe.cu" ||
  give_up "the fetched nvcc does not compile; is g++ installed, and no newer than it supports?"
if [ "$arm64" = 1 ]; then
  "$root/bin/nvcc" -ccbin aarch64-linux-gnu-g++ -std=c++20 -arch=sm_90a -cudart static -o "$staging/probe" \
    "$staging/probe.cu" || give_up "the fetched nvcc does not compile for arm64; is its g++ no newer than nvcc supports?"
fi

rm -rf "$target"
mv "$root" "$target"
echo "fetch-cuda: $("$target/bin/nvcc" --version | grep release) in $target"

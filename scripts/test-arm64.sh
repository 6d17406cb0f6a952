#!/usr/bin/env bash
# Cross-compiles the CPU kernels for 64-bit Arm and runs their tests under qemu, as processors with different instruction
# sets. Takes about a minute of one core, and 75 MB to download the first time.
#
#   scripts/test-arm64.sh [--contract]     --contract: also runs a part of the backend's contract (three more minutes)
#
# Ends with 77, the status of a skipped test, if the cross compiler, qemu or Debian's arm64 libraries cannot be installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

contract=0
case "${1:-}" in
  "") ;;
  --contract) contract=1 ;;
  *)
    echo "test-arm64: unknown option $1" >&2
    exit 1
    ;;
esac
skip() {
  echo "test-arm64: skipped: $*" >&2
  exit 77
}
build=build/arm64
sysroot=build/arm64-sysroot
jobs=${JOBS:-1}

scripts/setup.sh build arm64 || skip "cannot install the packages of [build] and [arm64] in deploy/apt-packages.txt"
scripts/arm64-sysroot.sh "$sysroot" || skip "cannot download Debian's arm64 libraries"
mkdir -p build
cmake --preset arm64 >build/configure-arm64.log 2>&1 || { cat build/configure-arm64.log; exit 1; }
targets=(isa_test)
[ "$contract" = 0 ] || targets+=(cpu_contract_test)
cmake --build --preset arm64 -j "$jobs" --target "${targets[@]}"

# run PROCESSOR TEST [FLAG...]
run() {
  echo "test-arm64: $2 as $1"
  qemu-aarch64-static -L "$sysroot" -cpu "$1" "$build/tests/$2" --gtest_brief=1 "${@:3}"
}
# isas PROCESSOR NAMES: fails unless isa_test finds exactly these instruction sets on the processor, best first.
isas() {
  local found
  found=$(qemu-aarch64-static -L "$sysroot" -cpu "$1" "$build/tests/isa_test" --gtest_list_tests |
    sed -n '/IntegersAreExact/s/.*IntegersAreExact.\([a-z0-9]*\).*/\1/p' | tr '\n' ' ')
  [ "$found" = "$2 " ] || { echo "test-arm64: as $1 the instruction sets are $found, not $2" >&2; exit 1; }
}
isas max "neoni8mm neondot neon portable"
isas neoverse-n1 "neondot neon portable"
isas cortex-a57 "neon portable"
for processor in max neoverse-n1 cortex-a57; do run "$processor" isa_test; done

# The whole contract takes too long under qemu. These cases check the kernels themselves, each in a different way.
if [ "$contract" = 1 ]; then
  cases=
  for name in QuantizedScoresHaveTheContractsBits TiesAreOrderedByPosition NothingBesideTheCandidatesIsRead \
    AnyTwoByteAlignmentGivesTheSameBits AlignMatchesFp64 ScoresMatchFp64WithWeights; do
    cases="$cases:*/neon*_$name"
  done
  run max cpu_contract_test "--gtest_filter=${cases#:}"
fi

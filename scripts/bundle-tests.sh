#!/usr/bin/env bash
# Runs the bundle's tests in place. Nothing needs to be installed. Exits with 1 if a test failed.
#
#   ./run-tests.sh [--gpu | --no-gpu] [--timeout SECONDS] [NAME...]
#
# --gpu runs only the tests that need a GPU, --no-gpu all others. By default, tests that need a GPU are skipped if
# there is none. NAME selects tests by name. GTEST_FILTER and the other GTEST_ variables work.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1

timeout_s=600
which=all
names=()
while [ $# -gt 0 ]; do
  case "$1" in
    --gpu) which=gpu ;;
    --no-gpu) which=no-gpu ;;
    --timeout)
      timeout_s=${2:?--timeout wants seconds}
      shift
      ;;
    -*)
      sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
      exit 2
      ;;
    *) names+=("$1") ;;
  esac
  shift
done
if [ ${#names[@]} -eq 0 ]; then
  case $which in
    no-gpu) mapfile -t names < <(grep -vxFf tests/gpu.list tests/all.list) ;;
    *) mapfile -t names <"tests/$which.list" ;;
  esac
fi

export MAXSIM_BIN_DIR=${MAXSIM_BIN_DIR:-$PWD/bin}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0 skipped=0
for name in "${names[@]}"; do
  start=$(date +%s%N)
  timeout --kill-after=10 "$timeout_s" "tests/$name" >"$log" 2>&1 </dev/null
  rc=$?
  ms=$((($(date +%s%N) - start) / 1000000))
  ran=$(grep -c '^\[       OK \]' "$log")
  left_out=$(grep -c '^\[  SKIPPED \] .*(.* ms)$' "$log")
  if [ $rc -ne 0 ]; then
    failed=$((failed + 1))
    cat "$log"
    echo "FAILED  $name (exit $rc, $ms ms)"
  elif [ "$ran" -eq 0 ]; then
    skipped=$((skipped + 1))
    echo "skipped $name: $(grep -A1 -m1 -i 'skipped' "$log" | tail -1)"
  else
    passed=$((passed + 1))
    echo "ok      $name ($ran cases, $left_out skipped, $ms ms)"
  fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]

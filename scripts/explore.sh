#!/usr/bin/env bash
# Searches for new failures for MINUTES minutes: half of the time with the fuzz targets (scripts/fuzz.sh), half of it
# with the tests with the label `seeded`, one after another, with a new seed each time. `make explore MINUTES=n` builds
# first and then calls this.
#
#   scripts/explore.sh MINUTES
#
# Goes on after a failure; exits with 1 at the end if there was one. For a failed test it prints the command that
# repeats the test with its seed; a failed fuzz target prints its own. Turn every finding into a test or an input in
# tests/fuzz/corpus.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

minutes=${1:?usage: scripts/explore.sh MINUTES}
[[ "$minutes" =~ ^[1-9][0-9]*$ ]] || { echo "explore: MINUTES is $minutes, and must be a whole number from 1 on" >&2; exit 2; }
num_targets=$(find tests/fuzz -name '*_fuzz.cc' | wc -l)
logs=build/explore
mkdir -p "$logs"
failures=()

scripts/fuzz.sh --build-only
fuzz_seconds=$((minutes * 30 / num_targets))
scripts/fuzz.sh --no-build --seconds $((fuzz_seconds > 0 ? fuzz_seconds : 1)) || failures+=("make fuzz: see build/fuzz/findings")

end=$((SECONDS + minutes * 30))
mapfile -t tests < <(ctest --test-dir build/release -N -L seeded | sed -n 's/^ *Test *#[0-9]*: //p')
[ ${#tests[@]} -gt 0 ] || { echo "explore: no test has the label seeded" >&2; exit 1; }
while [ $SECONDS -lt $end ]; do
  for test in $(printf '%s\n' "${tests[@]}" | shuf); do
    [ $SECONDS -lt $end ] || break
    seed=$((RANDOM * 32768 + RANDOM + 2))
    if ! MAXSIM_TEST_SEED=$seed ctest --test-dir build/release --output-on-failure -R "^$test\$" >"$logs/$test.log" 2>&1; then
      cp "$logs/$test.log" "$logs/$test-$seed.log"
      failures+=("MAXSIM_TEST_SEED=$seed ctest --test-dir build/release --output-on-failure -R '^$test\$'   # $logs/$test-$seed.log")
      echo "explore: $test FAILED with seed $seed"
    else
      echo "explore: $test passed with seed $seed"
    fi
  done
done

if [ ${#failures[@]} -gt 0 ]; then
  printf '\nTo repeat what failed:\n'
  printf '  %s\n' "${failures[@]}"
  exit 1
fi
echo "explore: nothing failed in $minutes minutes"

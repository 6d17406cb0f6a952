#!/usr/bin/env bash
# Searches for new failures for MINUTES minutes: a third of the time with the fuzz targets (scripts/fuzz.sh), a third
# with the tests with the label `seeded`, and a third with the long trials of a cluster (tests/cluster/trials.py). Tests
# and trials run one after another, with a new seed each time. The last one is not cut short, and a trial takes several
# minutes. `make explore MINUTES=n` builds first and then calls this.
#
#   scripts/explore.sh MINUTES
#
# Goes on after a failure; exits with 1 at the end if there was one. For a failed test or trial it prints the command
# that repeats it with its seed; a failed fuzz target prints its own. Turn every finding into a test or an input in
# tests/fuzz/corpus.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

minutes=${1:?usage: scripts/explore.sh MINUTES}
[[ "$minutes" =~ ^[1-9][0-9]*$ ]] || { echo "explore: MINUTES is $minutes, and must be a whole number from 1 on" >&2; exit 2; }
num_targets=$(find tests/fuzz -name '*_fuzz.cc' | wc -l)
logs=build/explore
mkdir -p "$logs"
failures=()

new_seed() {
  echo $((RANDOM * 32768 + RANDOM + 2))
}

scripts/fuzz.sh --build-only
fuzz_seconds=$((minutes * 20 / num_targets))
scripts/fuzz.sh --no-build --seconds $((fuzz_seconds > 0 ? fuzz_seconds : 1)) || failures+=("make fuzz: see build/fuzz/findings")

# More than the tests of CI do.
larger=(MAXSIM_LIVE_POWER_CUTS=40 MAXSIM_HOSTILE_SECONDS=4 MAXSIM_SELECTION_CASES=100000 MAXSIM_TENANT_REQUESTS=50000)
export "${larger[@]}"
end=$((SECONDS + minutes * 20))
mapfile -t tests < <(ctest --test-dir build/release -N -L seeded | sed -n 's/^ *Test *#[0-9]*: //p')
[ ${#tests[@]} -gt 0 ] || { echo "explore: no test has the label seeded" >&2; exit 1; }
while [ $SECONDS -lt $end ]; do
  for test in $(printf '%s\n' "${tests[@]}" | shuf); do
    [ $SECONDS -lt $end ] || break
    seed=$(new_seed)
    if ! MAXSIM_TEST_SEED=$seed ctest --test-dir build/release --output-on-failure -R "^$test\$" >"$logs/$test.log" 2>&1; then
      cp "$logs/$test.log" "$logs/$test-$seed.log"
      failures+=("${larger[*]} MAXSIM_TEST_SEED=$seed ctest --test-dir build/release --output-on-failure -R '^$test\$'   # $logs/$test-$seed.log")
      echo "explore: $test FAILED with seed $seed"
    else
      echo "explore: $test passed with seed $seed"
    fi
  done
done

# The servers of a trial sync to the disk all the time. So their files are in memory if /dev/shm has over 4 GiB free.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ] && [ "$(df --output=avail -k /dev/shm | tail -1)" -gt $((4 << 20)) ]; then
  export TMPDIR=/dev/shm
fi
suite="/usr/bin/python3 -B tests/cluster/chaos_suite.py build/release/bin"
mapfile -t trials < <(
  echo "/usr/bin/python3 -B tests/cluster/rolling_restarts.py build/release/bin"
  echo "/usr/bin/python3 -B tests/cluster/nats_leader_kills.py build/release/bin"
  for fault in $($suite --list); do
    for versions in none all; do echo "$suite --fault $fault --versions $versions"; done
  done
)
end=$((SECONDS + minutes * 20))
while [ $SECONDS -lt $end ]; do
  while IFS= read -r trial; do
    [ $SECONDS -lt $end ] || break
    command="$trial --seed $(new_seed)"
    if $command >"$logs/trial.log" 2>&1; then
      echo "explore: $(tail -n 1 "$logs/trial.log")"
      continue
    fi
    log="$logs/trial-${command##* }.log"
    cp "$logs/trial.log" "$log"
    failures+=("$command   # $log")
    echo "explore: FAILED: $command"
  done < <(printf '%s\n' "${trials[@]}" | shuf)
done

if [ ${#failures[@]} -gt 0 ]; then
  printf '\nTo repeat what failed:\n'
  printf '  %s\n' "${failures[@]}"
  exit 1
fi
echo "explore: nothing failed in $minutes minutes"

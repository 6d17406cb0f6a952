#!/usr/bin/env bash
# Runs shellcheck over every shell script of the repository, found by name or by first line, and checks that every Python test
# prints why it skips something.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t files < <(git ls-files | while IFS= read -r file; do
  case "$file" in
    *.sh) echo "$file" ;;
    *) if [ -f "$file" ] && head -c 64 "$file" | head -1 | tr -d '\0' | grep -qE '^#!.*\b(ba)?sh\b'; then echo "$file"; fi ;;
  esac
done)
shellcheck "${files[@]}"
echo "shellcheck: ${#files[@]} files"

# unittest prints the reason of a skip only in verbose mode, and run-tests.py accepts no skip without a reason.
if git grep -n 'unittest\.main(' -- '*.py' | grep -v 'verbosity=2'; then
  echo "check-scripts: call unittest.main with verbosity=2" >&2
  exit 1
fi

#!/usr/bin/env bash
# Runs shellcheck over every shell script of the repository, found by name or by first line.
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

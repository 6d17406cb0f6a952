#!/usr/bin/env bash
# Fails if a comment begins with one of the words below: such a comment continues the text before it and can't be
# understood on its own. Only the first line of a comment is checked, which is one whose previous line has no comment
# in the same column. Reads C++, CUDA, CMake, Python, shell and YAML.
#
#   scripts/check-words.sh [FILE...]      default: every file of the repository
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

words='Likewise|The same|Of|And|As above|Nor|Or|But|Ditto'

# is_read FILE: whether the comments of FILE are checked. Its name decides, or its first line if it is a shell script.
is_read() {
  case "$1" in
    *.cc | *.h | *.cu | *.cuh | *.cmake | *CMakeLists.txt | *.py | *.sh | *.yaml | *.yml) return 0 ;;
    *) [ -f "$1" ] && head -c 64 "$1" | head -1 | tr -d '\0' | grep -qE '^#!.*\b(ba)?sh\b' ;;
  esac
}

files=("$@")
if [ $# -eq 0 ]; then
  while IFS= read -r file; do
    if [ -f "$file" ] && is_read "$file"; then files+=("$file"); fi
  done < <(git ls-files --cached --others --exclude-standard)
fi

# A comment mark counts at the beginning of a line, or after code and a space. A mark inside a string counts too.
# shellcheck disable=SC2016 # awk's fields
program='
  FNR == 1 {
    column = 0
    mark = FILENAME ~ /\.(cc|h|cu|cuh)$/ ? "(//[/!]?<?|/\\*[*!]?)" : "#"
    leaning = mark "[ \t]*(" words ")[^A-Za-z]"
  }
  {
    before = column
    column = 0
    if ($0 ~ /^#!/) next
    if (match(" " $0, "[ \t]" mark)) column = RSTART
    if (column && column != before && substr($0, column) " " ~ "^" leaning) {
      print FILENAME ":" FNR ": " $0
      wrong++
    }
  }
  END {
    if (wrong) print "words: " wrong " comments lean on what stands before them: name the subject" > "/dev/stderr"
    exit wrong > 0
  }'
printf '%s\0' "${files[@]}" | xargs -0 awk -v words="$words" "$program" || exit 1
echo "words: ${#files[@]} files"

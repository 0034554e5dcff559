#!/bin/sh
# lint.sh: every C file is formatted by clang-format with .clang-format, no line of code passes column 120, every .c
# file begins with its purpose, and the texts of mutants.sh are in the search. Prints each violation as FILE:LINE: WHAT.
set -eu
export LC_ALL=C.UTF-8
command -v clang-format >/dev/null || { echo "lint: clang-format is missing; make deps installs it" >&2; exit 1; }
sources=$(git ls-files '*.[ch]')
failed=0
# shellcheck disable=SC2086
clang-format --dry-run -Werror $sources || failed=1
for source in $sources; do
    if grep -nP '^.{121,}' "$source" | sed "s,^\\([0-9]*\\):.*,$source:\\1: ends behind column 120," | grep .; then failed=1; fi
    case $source in
    *.c) head -c 2 "$source" | grep -q '/\*' || { echo "$source:1: does not open with what it is for"; failed=1; } ;;
    esac
done
scripts/mutants.sh --check || failed=1
[ "$failed" -eq 0 ] && echo "lint: $(echo "$sources" | wc -l) files as they should be"
exit "$failed"

#!/bin/sh
# test.sh PROGRAM WHAT...: runs test programs, and by name golden, documents (README.md, docs/), pictures, pages, python
# and library, as many at once as there are processors, in the order given. Shows the output of failures and closes with
# one line, "N passed, N failed"; the exit status is the verdict.
set -eu
export LC_ALL=C
# An allocation that is too large is answered with NULL here, too, as it is without the sanitizer.
export ASAN_OPTIONS="${ASAN_OPTIONS:-allocator_may_return_null=1}"
export LSAN_OPTIONS="${LSAN_OPTIONS:-print_suppressions=0:suppressions=$PWD/tests/leaks.supp}"

# The number before " test(s)" on the log's last line that starts with the word given.
count() {
    awk -v word="$1" 'index($0, "[  " word "  ]") == 1 && / test\(s\)/ { n = $4 } END { print n + 0 }' "$log"
}

# A program that dies, or that ran nothing, is a failure that no test reported.
test_program() { # PROGRAM
    status=0
    timeout 3600 "$1" >"$log" 2>&1 || status=$?
    good=$(count PASSED)
    bad=$(count FAILED)
    if [ $((good + bad)) -eq 0 ] || { [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; }; then bad=$((bad + 1)); fi
    [ "$bad" -gt 0 ] || : >"$log"
    printf '%-24s %d passed, %d failed\n' "$(basename "$1"):" "$good" "$bad" >>"$log"
}

test_printed() { # NAME
    case $1 in
    golden) scripts/golden.sh "$program" ;;
    documents) scripts/readme.sh "$program" ;;
    pictures) scripts/pictures.sh "$program" docs --check ;;
    *) "scripts/$1.sh" "$program" ;;
    esac >"$log" 2>&1 || true
    good=$(sed -n "s/^$1: *\([0-9]*\) passed, [0-9]* failed\$/\1/p" "$log")
    bad=$(sed -n "s/^$1: *[0-9]* passed, \([0-9]*\) failed\$/\1/p" "$log")
}

program=$1
if [ "${TEST_FOLDER:-}" ]; then
    log=$TEST_FOLDER/$(basename "$2").log
    case $2 in */*) test_program "$2" ;; *) test_printed "$2" ;; esac
    echo "${good:-0} ${bad:-1}" >"${log%.log}.count"
    flock "$TEST_FOLDER" cat "$log"
    exit
fi

shift
TEST_FOLDER=$(mktemp -d)
export TEST_FOLDER
trap 'rm -rf "$TEST_FOLDER"' EXIT
printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} "$0" "$program" {} || true
awk -v all=$# '{ passed += $1; failed += $2 } END { failed += all - NR; print passed + 0 " passed, " failed + 0 " failed"; exit failed > 0 }' \
    "$TEST_FOLDER"/*.count

#!/bin/sh
# test.sh PROGRAM TEST...: runs each test program, then the golden cases of PROGRAM and the commands of README.md and
# docs/. Shows the output of failures and closes with one line, "N passed, N failed"; the exit status is the verdict.
set -eu
program=$1
shift
export LC_ALL=C
# An allocation that is too large is answered with NULL here, too, as it is without the sanitizer.
export ASAN_OPTIONS="${ASAN_OPTIONS:-allocator_may_return_null=1}"
export LSAN_OPTIONS="${LSAN_OPTIONS:-print_suppressions=0:suppressions=$PWD/tests/leaks.supp}"

passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# The number before " test(s)" on the log's last line that starts with the word given.
count() {
    awk -v word="$1" 'index($0, "[  " word "  ]") == 1 && / test\(s\)/ { n = $4 } END { print n + 0 }' "$log"
}

for test in "$@"; do
    status=0
    timeout 3600 "$test" >"$log" 2>&1 || status=$?
    good=$(count PASSED)
    bad=$(count FAILED)
    # A program that dies, or that ran nothing, is a failure that no test reported.
    if [ $((good + bad)) -eq 0 ] || { [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; }; then bad=$((bad + 1)); fi
    [ "$bad" -eq 0 ] || cat "$log"
    printf '%-24s %d passed, %d failed\n' "$(basename "$test"):" "$good" "$bad"
    passed=$((passed + good))
    failed=$((failed + bad))
done

# Output of the program: golden cases, the README and its guides with their pictures, its pages in a browser, the Python
# package, and the library in another program.
for printed in golden documents pictures pages python library; do
    case $printed in
    golden) scripts/golden.sh "$program" ;;
    pictures) scripts/pictures.sh "$program" docs --check ;;
    pages) scripts/pages.sh "$program" ;;
    python) scripts/python.sh "$program" ;;
    library) scripts/library.sh "$program" ;;
    *) scripts/readme.sh "$program" ;;
    esac >"$log" 2>&1 || true
    cat "$log"
    good=$(sed -n "s/^$printed: *\([0-9]*\) passed, [0-9]* failed\$/\1/p" "$log")
    bad=$(sed -n "s/^$printed: *[0-9]* passed, \([0-9]*\) failed\$/\1/p" "$log")
    passed=$((passed + ${good:-0}))
    failed=$((failed + ${bad:-1}))
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

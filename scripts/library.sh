#!/bin/sh
# library.sh PROGRAM: installs into a folder, builds examples/ask.c there through pkg-config alone, runs it, and checks
# the library's visible names. Closes with "library: N passed, M failed".
set -eu
build=$(dirname "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0
check() { # WHAT STATUS
    if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "library: $1" && cat "$work/log"; fi
}

status=0
make install BUILD="$build" DESTDIR="$work" PREFIX=/usr >"$work/log" 2>&1 || status=$?
check "make install" "$status"
PKG_CONFIG_PATH=$work/usr/lib/pkgconfig
PKG_CONFIG_SYSROOT_DIR=$work
export PKG_CONFIG_PATH
sanitizers=
if nm "$1" | grep -q __asan_init; then sanitizers="-fsanitize=address,undefined"; fi
status=0
# shellcheck disable=SC2046,SC2086
${CC:-cc} -Wall -Wextra -Werror $sanitizers -o "$work/ask" examples/ask.c \
    $(pkg-config --define-variable=prefix="$work/usr" --cflags --libs meshwright) >"$work/log" 2>&1 || status=$?
check "examples/ask.c does not build" "$status"
LD_LIBRARY_PATH=$work/usr/lib
export LD_LIBRARY_PATH
status=0
"$work/ask" examples/t5_11b_v4_512.json >"$work/log" 2>&1 || status=$?
grep -q '^batch 512   fits$' "$work/log" && grep -q '^batch 4096  does not fit$' "$work/log" || status=1
check "examples/ask.c does not say what fits" "$status"
# Only public names are visible, so that a program may have functions with our private names.
nm -g --defined-only "$work/usr/lib/libmeshwright.a" | awk '$3 != "" && $3 !~ /^(meshwright|mw)_/ && $3 !~ /asan|ubsan/ { print $3; bad = 1 } END { exit bad }' >"$work/log" || status=1
check "the library shows other names than its own" "$status"
# Any language that loads a shared library and reads the header: one without a compiler.
if [ -z "$sanitizers" ] && command -v python3 >/dev/null; then
    status=0
    python3 tests/typed_library.py "$work/usr" "$1" >"$work/log" 2>&1 || status=$?
    check "tests/typed_library.py" "$status"
fi
printf '%-24s %d passed, %d failed\n' library: "$passed" "$failed"
[ "$failed" -eq 0 ]

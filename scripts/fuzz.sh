#!/bin/sh
# fuzz.sh BUILD TARGET...: builds the fuzz targets in BUILD and runs each for FUZZ_SECONDS. With clang they use
# libFuzzer, which keeps new inputs in BUILD/corpus; otherwise the tests' seeded mutator. Both run under the address and
# undefined-behaviour sanitizers. The first finding ends the run and leaves its input.
set -eu
build=$1
shift
seconds=${FUZZ_SECONDS:-60}
checks=address,undefined,float-cast-overflow
export ASAN_OPTIONS="${ASAN_OPTIONS:-allocator_may_return_null=1}"
export LSAN_OPTIONS="${LSAN_OPTIONS:-print_suppressions=0:suppressions=$PWD/tests/leaks.supp}"

if command -v clang >/dev/null; then
    make BUILD="$build" CC=clang CFLAGS='-O1 -g -fno-omit-frame-pointer' sanitizers="-fsanitize=fuzzer-no-link,$checks -fno-sanitize-recover=all" \
        LDFLAGS=-fsanitize=fuzzer fuzz_driver= "$@"
else
    make BUILD="$build" CFLAGS='-O1 -g -fno-omit-frame-pointer' sanitizers="-fsanitize=$checks -fno-sanitize-recover=all" "$@"
fi

for target in "$@"; do
    name=$(basename "$target")
    name=${name#fuzz_}
    echo "== $name, $seconds s"
    if ! command -v clang >/dev/null; then
        "$target" --seconds "$seconds" --seed "${FUZZ_SEED:-1}"
        continue
    fi
    mkdir -p "$build/corpus/$name"
    "$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=4096 -seed="${FUZZ_SEED:-1}" -print_final_stats=0 -verbosity=1 \
        -artifact_prefix="$build/$name-" -dict="tests/fuzz/$name.dict" "$build/corpus/$name" "tests/fuzz/corpus/$name" 2>"$build/$name.log" </dev/null || {
        tail -n 60 "$build/$name.log"
        exit 1
    }
    tail -n 1 "$build/$name.log"
done

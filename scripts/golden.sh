#!/bin/sh
# golden.sh PROGRAM [--update]: runs the command lines of tests/golden/*.cmd, each in a fresh folder that holds a copy of
# tests/golden/files, and compares with NAME.out, NAME.err and NAME.rc beside it (absent: nothing printed, exit 0).
# A command that refuses (exit 2 or 3) must leave no file behind. --update rewrites what is expected.
set -eu
program=$(realpath "$1")
update=${2:-}
golden=$(realpath tests/golden)
export LC_ALL=C

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$program" "$work/bin/meshwright"
PATH=$work/bin:$PATH

# Fills out, err, rc and left (files that appeared) of the case whose command line is given.
run_case() {
    rm -rf "$work/case"
    mkdir "$work/case"
    [ ! -d "$golden/files" ] || cp -R "$golden/files/." "$work/case"
    (cd "$work/case" && find . | sort) >"$work/before"
    status=0
    (cd "$work/case" && timeout 60 sh "$1" </dev/null >"$work/out" 2>"$work/err") || status=$?
    echo "$status" >"$work/rc"
    (cd "$work/case" && find . | sort) | diff "$work/before" - >"$work/left" || true
}

# Prints the differences between what came and what is expected of the case named.
compare_case() {
    for part in out err rc; do
        expected=$golden/$1.$part
        [ -e "$expected" ] || { expected=$work/absent; [ $part = rc ] && echo 0 >"$expected" || : >"$expected"; }
        diff -u --label "$1.$part expected" --label "$1.$part" "$expected" "$work/$part" || true
    done
    case $(cat "$work/rc") in 2 | 3) sed 's/^/left behind: /' "$work/left" ;; esac
    # Whatever is expected, a crash is not: so that --update can never make one the expected answer.
    grep -E 'Segmentation fault|Aborted|core dumped|runtime error:|Sanitizer' "$work/out" "$work/err" |
        sed 's/^[^:]*:/crashed: /'
}

# Keeps only the parts that say something: no empty .out or .err, no .rc of 0.
update_case() {
    for part in out err rc; do
        if [ -s "$work/$part" ] && [ "$part $(cat "$work/$part")" != 'rc 0' ]; then
            cp "$work/$part" "$golden/$1.$part"
        else
            rm -f "$golden/$1.$part"
        fi
    done
}

passed=0
failed=0
for command in "$golden"/*.cmd; do
    [ -e "$command" ] || continue
    name=$(basename "$command" .cmd)
    run_case "$command"
    [ "$update" != --update ] || update_case "$name"
    compare_case "$name" >"$work/difference"
    if [ -s "$work/difference" ]; then
        echo "golden case $name failed: $(cat "$command")"
        cat "$work/difference"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
done
printf '%-24s %d passed, %d failed\n' golden: "$passed" "$failed"
[ "$failed" -eq 0 ]

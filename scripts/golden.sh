#!/bin/sh
# golden.sh PROGRAM [--update]: runs the cases of tests/golden/*.case, each in a fresh folder with a copy of
# tests/golden/files. A case is a file: the command lines, then the expected sections "=== out", "=== err" and "=== exit
# N" (absent: nothing printed, exit 0). A command that refuses (exit 2 or 3) must leave no file. The command of an
# answer's "Reproduce:" line must give the answer's figures. --update rewrites the sections.
set -eu
program=$(realpath "$1")
update=${2:-}
golden=$(realpath tests/golden)
export LC_ALL=C

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$program" "$work/bin/meshwright"
ln -s "$program-lab" "$work/bin/meshwright-lab"
PATH=$work/bin:$PATH

# Runs the command lines in a fresh folder. Fills out, err, rc and left (files that appeared).
run_case() {
    rm -rf "$work/case"
    mkdir "$work/case"
    [ ! -d "$golden/files" ] || cp -R "$golden/files/." "$work/case"
    (cd "$work/case" && find . | sort) >"$work/before"
    rc=0
    (cd "$work/case" && timeout 600 sh "$work/command" </dev/null >"$work/out" 2>"$work/err") || rc=$?
    (cd "$work/case" && find . | sort) | diff "$work/before" - >"$work/left" || true
}

# The section of an output: its heading, then the output. Nothing for an empty one.
section() {
    [ -s "$work/$1" ] || return 0
    if [ "$(tail -c 1 "$work/$1")" ]; then
        printf '=== %s without a newline at its end\n' "$1" && cat "$work/$1" && echo
    else
        printf '=== %s\n' "$1" && cat "$work/$1"
    fi
}

# Prints differences from the expected case, and violations of general rules: --update can therefore never accept a
# crash.
compare_case() {
    diff -u --label "$1 expected" --label "$1" "$golden/$1" "$work/came" || true
    case $rc in 2 | 3) sed 's/^/left behind: /' "$work/left" ;; esac
    grep -E 'Segmentation fault|Aborted|core dumped|runtime error:|Sanitizer' "$work/out" "$work/err" |
        sed 's/^[^:]*:/crashed: /' || true
}

# Every command line that an answer says is asked again gives the figures of that answer: its tokens a second and its step.
# Cases that show a part of an answer without them are left out.
compare_again() {
    grep -qE 'tokens/s.*(/step;|MFU)|tokens/s +step' "$work/out" || return 0
    sed -n 's/^\(Reproduce the best\|Reproduce\): //p' "$work/out" | while read -r command; do
        (cd "$work/case" && timeout 600 sh -c "$command" </dev/null 2>/dev/null || true) | grep -m1 'tokens/s' >"$work/again" || true
        ranked=$(sed -nE 's/^([0-9.]+ ?[kMG]?) target tokens\/s.*\(([0-9.]+ [^ ]*s)\/step.*/\1 +\2 /p' "$work/again")
        [ -s "$work/again" ] && grep -qFf "$work/again" "$work/out" && continue
        [ "$ranked" ] && grep -qE "$ranked" "$work/out" || echo "not the same again: $command: $(cat "$work/again")"
    done
}

passed=0
failed=0
for case in "$golden"/*.case; do
    [ -e "$case" ] || continue
    name=$(basename "$case")
    sed '/^=== /,$d' "$case" >"$work/command"
    run_case
    { cat "$work/command" && section out && section err && { [ "$rc" -eq 0 ] || echo "=== exit $rc"; }; } >"$work/came"
    [ "$update" != --update ] || cmp -s "$work/came" "$case" || cp "$work/came" "$case"
    { compare_case "$name" && compare_again; } >"$work/difference"
    if [ -s "$work/difference" ]; then
        echo "golden case $name failed: $(cat "$work/command")"
        cat "$work/difference"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
done
printf '%-24s %d passed, %d failed\n' golden: "$passed" "$failed"
[ "$failed" -eq 0 ]

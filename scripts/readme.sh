#!/bin/sh
# readme.sh PROGRAM [--update] [FILE...]: runs the commands ("$ …") of the ```console blocks of README.md and docs/*.md,
# or of the given files, and compares their output with the lines below them. Each file has its own folder, with build/
# and examples/. A line "…" matches any lines. Commands after ```console measured, whose times vary, must only succeed.
# --update replaces the shown output by the actual one, where nothing is omitted.
set -eu
program=$(realpath "$1")
shift
update=
if [ "${1:-}" = --update ]; then update=--update && shift; fi
[ $# -gt 0 ] || set -- README.md docs/*.md
examples=$(realpath examples)
export LC_ALL=C.UTF-8

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One numbered case a command of FILE: NNN.cmd, NNN.want, and NNN.measured where only success is asked for.
split_file() { # FILE
    rm -rf "$work/cases" "$work/run"
    mkdir "$work/cases" "$work/run"
    ln -s "$(dirname "$program")" "$work/run/build"
    cp -R "$examples" "$work/run/examples"
    awk -v folder="$work/cases" '
        /^```console/ { inside = 1; measured = /measured/; next }
        /^```/ { inside = 0; next }
        inside && /^\$ / {
            name = sprintf("%s/%03d", folder, ++n)
            print substr($0, 3) > (name ".cmd")
            printf "" > (name ".want")
            if (measured) printf "" > (name ".measured")
            next
        }
        inside && n { print > (name ".want") }' "$1"
}

# True if FILE 1 has the lines of FILE 2; a line "…" matches any lines.
agree() {
    awk 'NR == FNR { got[++lines] = $0; next } { want[++wanted] = $0 }
        function fits(i, j) {
            if (j > wanted) return i > lines
            if (want[j] == "…") { for (; i <= lines + 1; i++) if (fits(i, j + 1)) return 1; return 0 }
            return i <= lines && got[i] == want[j] && fits(i + 1, j + 1)
        }
        END { exit !fits(1, 1) }' "$1" "$2"
}

# FILE with the lines of each NNN.new in place of those below its command.
rewrite_file() { # FILE
    awk -v folder="$work/cases" '
        function show(name, line) { while ((getline line < name) > 0) print line; close(name) }
        /^```console/ { inside = 1 }
        /^```$/ { inside = 0; skipping = 0 }
        inside && /^\$ / { print; name = sprintf("%s/%03d.new", folder, ++n); skipping = (getline line < name) >= 0; close(name); if (skipping) show(name); next }
        !skipping { print }' "$1" >"$work/rewritten"
    cat "$work/rewritten" >"$1"
}

passed=0
failed=0
check_file() { # FILE
    split_file "$1"
    for command in "$work"/cases/*.cmd; do
        [ -e "$command" ] || continue
        case=${command%.cmd}
        status=0
        (cd "$work/run" && timeout 600 sh "$command" </dev/null >"$case.got" 2>&1) || status=$?
        if [ -e "$case.measured" ]; then
            good=$((status == 0))
        else
            good=1
            [ "$update" != --update ] || grep -q '^…$' "$case.want" || cp "$case.got" "$case.new"
            agree "$case.got" "$case.want" || good=0
        fi
        if [ "$good" -eq 1 ]; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "$1: exit $status of: $(cat "$command")"
            diff -u --label "$1" --label 'what it prints' "$case.want" "$case.got" || true
        fi
    done
    [ "$update" != --update ] || rewrite_file "$1"
}

for file in "$@"; do check_file "$file"; done
printf '%-24s %d passed, %d failed\n' documents: "$passed" "$failed"
[ "$failed" -eq 0 ]

#!/bin/sh
# readme.sh PROGRAM [--update]: runs every command of the README's ```console blocks ("$ " before it) in a folder that has
# build/ and examples/, and compares what it prints with the lines below it. A line "…" stands for any lines. After
# ```console measured, where times differ from run to run, the command must succeed and print what it likes. --update
# writes what came in place of what is there, where nothing is left out.
set -eu
program=$(realpath "$1")
update=${2:-}
readme=$(realpath README.md)
examples=$(realpath examples)
export LC_ALL=C.UTF-8

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/cases" "$work/run"
ln -s "$(dirname "$program")" "$work/run/build"
cp -R "$examples" "$work/run/examples"

# One numbered case a command: NNN.cmd, NNN.want, and NNN.measured where only success is asked for.
split_readme() {
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
        inside && n { print > (name ".want") }' "$readme"
}

# Whether FILE 1 has the lines of FILE 2, in which a line "…" stands for any lines.
agree() {
    awk 'NR == FNR { got[++lines] = $0; next } { want[++wanted] = $0 }
        function fits(i, j) {
            if (j > wanted) return i > lines
            if (want[j] == "…") { for (; i <= lines + 1; i++) if (fits(i, j + 1)) return 1; return 0 }
            return i <= lines && got[i] == want[j] && fits(i + 1, j + 1)
        }
        END { exit !fits(1, 1) }' "$1" "$2"
}

# The README with the lines of each NNN.got in place of those below its command.
rewrite_readme() {
    awk -v folder="$work/cases" '
        function show(name, line) { while ((getline line < name) > 0) print line; close(name) }
        /^```console/ { inside = 1 }
        /^```$/ { inside = 0; skipping = 0 }
        inside && /^\$ / { print; name = sprintf("%s/%03d.new", folder, ++n); skipping = (getline line < name) >= 0; close(name); if (skipping) show(name); next }
        !skipping { print }' "$readme" >"$work/README.md"
    cat "$work/README.md" >"$readme"
}

passed=0
failed=0
split_readme
for command in "$work"/cases/*.cmd; do
    case=${command%.cmd}
    status=0
    (cd "$work/run" && timeout 120 sh "$command" </dev/null >"$case.got" 2>&1) || status=$?
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
        echo "README.md: exit $status of: $(cat "$command")"
        diff -u --label README.md --label 'what it prints' "$case.want" "$case.got" || true
    fi
done
[ "$update" != --update ] || rewrite_readme
printf '%-24s %d passed, %d failed\n' README.md: "$passed" "$failed"
[ "$failed" -eq 0 ]

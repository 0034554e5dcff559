#!/bin/sh
# pictures.sh PROGRAM FOLDER [--check]: draws the README's pictures again, and writes the words and checksum of each to
# FOLDER/pictures.txt. --check draws nothing there, and lists pictures whose words differ from a new drawing, or whose
# file differs from its checksum. Pixels and positions are not compared, since they depend on the machine's fonts and
# Cairo. A chart's numbers are among its words, in labels or tooltips; colours are not checked.
set -eu
program=$1
folder=$2
check=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The command of a picture; its --out comes behind it.
draw() { # NAME FILE
    case $1 in
    comparison) "$program-lab" accuracy comparison "$work/result.csv" --out "$2" ;;
    memory) "$program" plot memory examples/t5_11b_v4_512.json --out "$2" ;;
    esac >/dev/null
}

# Text of a picture: a line with its name and the checksum of its file, then its words, independent of line breaks.
note() { # NAME PNG
    echo "$1.png $(sha256sum "$2" | cut -d ' ' -f 1)"
    draw "$1" "$work/$1.svg"
    grep -oE '<(text|title)[^>]*>[^<]*' "$work/$1.svg" | sed 's/^[^>]*>//' | tr -s '\n ' ' ' | fold -s -w 110 |
        sed 's/^ */    /; s/ *$//'
    echo
}

passed=0
failed=0
"$program" sweep examples/tpu_v4_tuning.csv --out "$work/result.csv" >/dev/null
for name in comparison memory; do
    [ -n "$check" ] || draw "$name" "$folder/$name.png"
    note "$name" "$folder/$name.png" >"$work/$name.txt"
    sed -n "/^$name\.png /,/^[^ ]/p" "$folder/pictures.txt" 2>/dev/null | sed '1!{/^[^ ]/d;}' >"$work/expected" || true
    if [ -n "$check" ] && ! diff -u --label "$folder/pictures.txt" --label "$name.png" "$work/expected" "$work/$name.txt"; then
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
done
[ -n "$check" ] || (cd "$work" && cat comparison.txt memory.txt) >"$folder/pictures.txt"
[ "$failed" -eq 0 ] || echo "pictures: make pictures draws them anew"
printf '%-24s %d passed, %d failed\n' pictures: "$passed" "$failed"
[ "$failed" -eq 0 ]

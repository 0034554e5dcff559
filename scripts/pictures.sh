#!/bin/sh
# pictures.sh PROGRAM FOLDER [--check]: draws the pictures of the README anew, and notes in FOLDER/pictures.txt the words of each
# and the checksum of its file. With --check draws nothing there, and says which picture is not what its command gives: its words
# differ from those drawn now, or its file from the one drawn with them. Words are compared, and not pixels or places, since those
# depend on the machine's fonts and Cairo; the numbers of a chart stand in them, in labels or in what is shown on hover. What has
# no words, a colour, is not checked.
set -eu
program=$1
folder=$2
check=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The command of a picture; its --out comes behind it.
draw() { # NAME FILE
    case $1 in
    comparison) "$program" plot comparison "$work/result.csv" --out "$2" ;;
    memory) "$program" plot memory examples/t5_11b_v4_512.json --out "$2" ;;
    esac >/dev/null
}

# What a picture says: a line with its name and the checksum of its file, then its words, wherever its lines break.
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

#!/bin/sh
# install.sh PROGRAM PREFIX: puts the program, its executor, its man page and its completion for bash where shells look for them.
set -eu
program=$1
prefix=$2
man=$prefix/share/man/man1
completions=$prefix/share/bash-completion/completions

# The program prints both from its tables; one that cannot run here leaves nothing behind.
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"$program" --man >"$made/man"
"$program" --bash-completion >"$made/completion"

install -d "$prefix/bin" "$man" "$completions"
install -m 755 "$program" "$prefix/bin/meshwright"
install -m 755 "$program-rank" "$prefix/bin/meshwright-rank"
install -m 644 "$made/man" "$man/meshwright.1"
install -m 644 "$made/completion" "$completions/meshwright"
printf '%s\n' "$prefix/bin/meshwright" "$man/meshwright.1" "$completions/meshwright"

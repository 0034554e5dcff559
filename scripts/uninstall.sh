#!/bin/sh
# uninstall.sh FOLDER: removes the files of `make install` from FOLDER, and nothing else.
set -eu
for file in bin/meshwright bin/meshwright-rank share/man/man1/meshwright.1 share/bash-completion/completions/meshwright \
    lib/libmeshwright.a lib/libmeshwright.so lib/libmeshwright.so.1 lib/pkgconfig/meshwright.pc include/meshwright.h; do
    [ ! -e "$1/$file" ] || { rm -f "$1/$file" && echo "$1/$file"; }
done

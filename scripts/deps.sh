#!/bin/sh
# Installs missing Debian packages, as root or through sudo without a password; otherwise prints the command for it and
# fails. Uses the network only if a package is missing.
set -eu

# package               what needs it
list='
build-essential         C compiler, make
pkg-config              finds the libraries
libcjson-dev            base/json.c
libpcre2-dev            model/pattern.c
libyaml-dev             model/import/yaml_reader.c
libgsl-dev              sim/predict/least_squares.c
libcairo2-dev           plots/canvas.c
libmicrohttpd-dev       serve/http.c
fonts-dejavu-core       text in pictures
libopenblas-dev         exec/gemm.c
libdnnl-dev             exec/onednn.c
zlib1g-dev              exec/gzip.c
libopenmpi-dev          exec/comm.c
openmpi-bin             mpirun, which starts the ranks of a run
libcmocka-dev           tests
clang-format            make lint
'

missing=
for package in $(printf '%s' "$list" | awk '{ print $1 }'); do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || state=
    [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

install="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" -eq 0 ]; then
    as_root='env'
elif sudo -n true 2>/dev/null; then
    as_root='sudo -n env'
else
    echo "Packages are missing. As root, run:" >&2
    echo "    apt-get update && $install" >&2
    exit 1
fi
echo "Installing:$missing" >&2
$as_root DEBIAN_FRONTEND=noninteractive apt-get update >&2
$as_root DEBIAN_FRONTEND=noninteractive $install >&2

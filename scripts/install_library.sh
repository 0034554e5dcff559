#!/bin/sh
# install_library.sh LIBRARIES FOLDER PREFIX PACKAGES: copies libmeshwright (.a and .so) from the folder LIBRARIES, with
# header and pkg-config file, to FOLDER. PREFIX is the final location; PACKAGES are the library's own dependencies.
set -eu
libraries=$1
folder=$2
prefix=$3
packages=$4
version=$(sed -n 's/^#define MESHWRIGHT_VERSION "\(.*\)"$/\1/p' library/meshwright.h)

install -d "$folder/lib/pkgconfig" "$folder/include"
install -m 644 "$libraries/libmeshwright.a" "$folder/lib/libmeshwright.a"
install -m 755 "$libraries/libmeshwright.so.1" "$folder/lib/libmeshwright.so.1"
ln -sf libmeshwright.so.1 "$folder/lib/libmeshwright.so"
install -m 644 library/meshwright.h "$folder/include/meshwright.h"
cat >"$folder/lib/pkgconfig/meshwright.pc" <<EOF
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: meshwright
Description: predicts, tunes and explains partitioning plans of transformers
Version: $version
Requires: $packages
Libs: -L\${libdir} -lmeshwright -ldl -lm
Cflags: -I\${includedir}
EOF
printf '%s\n' "$folder/lib/libmeshwright.a" "$folder/lib/libmeshwright.so.1" "$folder/lib/libmeshwright.so" "$folder/include/meshwright.h" "$folder/lib/pkgconfig/meshwright.pc"

#!/bin/sh
# install_library.sh LIBRARY FOLDER PREFIX PACKAGES: puts libmeshwright, its header and its pkg-config file under FOLDER; PREFIX
# is what they will be found under, PACKAGES what the library itself needs.
set -eu
library=$1
folder=$2
prefix=$3
packages=$4
version=$(sed -n 's/^#define MESHWRIGHT_VERSION "\(.*\)"$/\1/p' library/meshwright.h)

install -d "$folder/lib/pkgconfig" "$folder/include"
install -m 644 "$library" "$folder/lib/libmeshwright.a"
install -m 644 library/meshwright.h "$folder/include/meshwright.h"
cat >"$folder/lib/pkgconfig/meshwright.pc" <<EOF
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: meshwright
Description: predicts, tunes and explains partitioning plans of transformers
Version: $version
Requires: $packages
Libs: -L\${libdir} -lmeshwright -lglpk -ldl -lm
Cflags: -I\${includedir}
EOF
printf '%s\n' "$folder/lib/libmeshwright.a" "$folder/include/meshwright.h" "$folder/lib/pkgconfig/meshwright.pc"

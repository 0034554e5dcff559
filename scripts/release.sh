#!/bin/sh
# release.sh ONE TWO FOLDER ARCHIVE...: checks that two builds of the same source have the same bytes. Packs the first
# one's programs, their manual, and a bill of materials into FOLDER/meshwright-VERSION.tar.gz, which is reproducible,
# too.
set -eu
one=$1
two=$2
folder=$3
shift 3
export LC_ALL=C TZ=UTC
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
for program in meshwright meshwright-rank; do
    cmp "$one/$program" "$two/$program" || { echo "release: $program: two builds differ" >&2; exit 1; }
done
version=$("$one/meshwright" --version | sed 's/.* //')
name=meshwright-$version
rm -rf "${folder:?}/$name"
mkdir -p "$folder/$name"
scripts/install.sh "$one/meshwright" "$folder/$name" >/dev/null
cp LICENSE README.md CHANGELOG.md "$folder/$name"
python3 scripts/sbom.py "$version" "$one/meshwright" "$one/meshwright-rank" --static "$@" >"$folder/$name/sbom.spdx.json"
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$folder" -cf - "$name" | gzip -9n >"$folder/$name.tar.gz"
(cd "$folder" && sha256sum "$name.tar.gz")
echo "release: $(grep -c '"purl"' "$folder/$name/sbom.spdx.json") packages in the bill of materials; two builds have the same bytes"

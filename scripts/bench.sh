#!/bin/sh
# bench.sh PROGRAM: prints CSV with the time of one prediction including process start (best and median of many), and
# the rows per second of a sweep over the repeated example table. Compare on a quiet machine only.
set -eu
program=$(realpath "$1")
table=$(realpath examples/tpu_v4_tuning.csv)
starts=100
sweep_rows=20000
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

now_ns() { date +%s%N; }

# Prints the wall time of a command in ns. Its output is dropped, and "does not fit" counts as an answer.
time_ns() {
    begin=$(now_ns)
    status=0
    "$@" >/dev/null 2>&1 || status=$?
    end=$(now_ns)
    case $status in 0 | 4) echo $((end - begin)) ;; *) echo "bench: exit $status of: $*" >&2; return 1 ;; esac
}

# NAME COMMAND...: best and median of many runs.
bench_start() {
    name=$1
    shift
    for _ in $(seq "$starts"); do time_ns "$@"; done | sort -n |
        awk -v name="$name" '{ t[NR] = $1 } END { if (!NR) exit 1; printf "%s_best_s,%.6f\n%s_median_s,%.6f\n", name, t[1] / 1e9, name, t[int((NR + 1) / 2)] / 1e9 }'
}

# The example's rows over and over, header once.
awk -v want="$sweep_rows" 'NR == 1 { print; next } { row[++n] = $0 } END { for (i = 0; i < want; i++) print row[i % n + 1] }' "$table" >"$work/table.csv"

echo "what,value"
bench_start process_start "$program" --version
bench_start predict "$program" predict --json --model t5_1_0_11B --topology v4-512 --model-parallel-submesh 4,2,2,1 \
    --task-feature-lengths 512,512 --batch-size 896 --num-microbatches 4
bench_start predict_decode "$program" predict --json --model t5_1_0_11B --topology v5e-64 --model-parallel-submesh 4,4,1,1 \
    --task-feature-lengths 512,128 --batch-size 64 --step decode
elapsed_ns=$(time_ns "$program" sweep "$work/table.csv" --out "$work/result.csv")
awk -v rows="$sweep_rows" -v ns="$elapsed_ns" 'BEGIN { printf "sweep_rows_per_s,%.0f\n", rows / (ns / 1e9) }'

# The executor on one rank and on two, data-parallel, the same batch. The best of a few steps; wants two free cores.
field() { sed -n "s/^ *\"$1\": \\([0-9.e+-]*\\),*\$/\\1/p" "$2" | head -n 1; }
for ranks in 1 2; do
    "$program" run --model decoder_only:emb_dim=512,num_heads=8,head_dim=64,mlp_dim=2048,num_layers=4,vocab_size=4096,mlp_activations=gelu,logits_via_embedding=1 \
        --topology "local:$ranks" --task-feature-lengths 256 --batch-size 8 --optimizer adamw --steps 4 --json --out "$work/run_$ranks.json"
    sed -n 's/^  "step_s": \[\(.*\)\],*$/\1/p' "$work/run_$ranks.json" | tr ',' '\n' | sort -g |
        awk -v ranks="$ranks" 'NR == 1 { printf "run_%d_ranks_tokens_per_s,%.0f\n", ranks, 8 * 256 / $1 }'
done | tee "$work/ranks"
awk -F, '{ t[NR] = $2 } END { printf "run_2_ranks_speedup,%.2f\n", t[2] / t[1] }' "$work/ranks"
for part in compute_s memory_bound_s exposed_communication_s overhead_s step_s; do
    printf 'run_2_ranks_%s,%s\n' "$part" "$(field "$part" "$work/run_2.json")"
done
# NAME ARGUMENTS...: seconds of a search (best of three), how many plans it looked at, how many it predicted in full.
bench_search() {
    name=$1
    shift
    for _ in 1 2 3; do time_ns "$program" tune --json --out "$work/tuned.json" "$@"; done | sort -n |
        awk -v name="$name" 'NR == 1 { printf "%s_s,%.3f\n", name, $1 / 1e9 }'
    sed -n 's/^ *"\(space_count\|evaluated_count\|integer_program_count\)": \([0-9]*\),*$/\1,\2/p' "$work/tuned.json" | sed "s/^/${name}_/"
}

bench_search tune_v4_512 --model t5_1_0_11B --topology v4-512 --batch-size 896 --task-feature-lengths 512,512 --optimizer adamw
bench_search tune_4096_chips --model t5_1_1_xxl --topology v5p:16x16x16 --batch-size 4096 --task-feature-lengths 512,114
bench_search tune_rules --model t5_1_0_11B --topology v4-512 --batch-size 896 --task-feature-lengths 512,512 --optimizer adamw --search rules
bench_search tune_rules_xl --model t5_1_1_xl --topology v5e-64 --batch-size 256 --task-feature-lengths 512,512 --search rules
bench_search tune_remat --model llama2_7b --topology v4-16 --batch-size 128 --task-feature-lengths 2048 --optimizer adamw --search remat --beyond-t5x --optimizer-partitioning none --sequence-parallel 0
bench_search tune_remat_without_integer_program --model llama2_7b --topology v4-16 --batch-size 128 --task-feature-lengths 2048 --optimizer adamw --search remat --beyond-t5x --optimizer-partitioning none --sequence-parallel 0 --no-integer-program
bench_search tune_fit --model t5_1_0_11B --topology v4-512 --batch-size 896 --task-feature-lengths 512,512 --optimizer adamw --fit
bench_search tune_serving_t5_11b --model t5_1_0_11B --topology v5e-64 --batch-size auto --task-feature-lengths 512,128 --objective latency_s
bench_search tune_serving_llama_70b --model llama3_70b --topology v5e-64 --batch-size auto --task-feature-lengths 1024 --objective latency_s --beyond-t5x

# NAME ARGUMENTS...: seconds until a search has proven its best plan within 1 %, the size of its space, and the
# remaining gap after ten times as long with policies decided one by one (--no-integer-program).
bench_proof() {
    name=$1
    shift
    elapsed_ns=$(time_ns "$program" tune --json --out "$work/proven.json" --top 1 --gap 1 "$@")
    limit_s=$(awk -v ns="$elapsed_ns" 'BEGIN { printf "%.0f\n", ns / 1e8 + 1 }')
    awk -v name="$name" -v ns="$elapsed_ns" 'BEGIN { printf "%s_s,%.3f\n", name, ns / 1e9 }'
    printf '%s_space_count,%s\n' "$name" "$(field space_count "$work/proven.json")"
    printf '%s_gap_frac,%s\n' "$name" "$(field gap_frac "$work/proven.json")"
    time_ns "$program" tune --json --out "$work/without.json" --top 1 --gap 1 --no-integer-program --time-limit "$limit_s" "$@" >"$work/ns"
    printf '%s_without_integer_program_gap_frac,%s\n' "$name" "$(field gap_frac "$work/without.json")"
}

each_policy='--search rules,remat --beyond-t5x --optimizer-partitioning none --sequence-parallel 0 --optimizer adamw'
# shellcheck disable=SC2086
{
    bench_proof prove_t5_11b --model t5_1_0_11B --topology v4-512 --batch-size 896 --task-feature-lengths 512,512 $each_policy
    bench_proof prove_llama_70b --model llama2_70b --topology v5p-512 --batch-size 1024 --task-feature-lengths 4096 $each_policy
    bench_proof prove_gpt3_175b --model gpt3_175b --topology a100-80g:128x8 --batch-size 1536 --task-feature-lengths 2048 $each_policy
}

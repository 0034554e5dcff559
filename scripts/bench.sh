#!/bin/sh
# bench.sh PROGRAM: what users wait for. Prints CSV: the time of one prediction with process start (best and median of
# many), and the rows per second of a sweep over the example table repeated. Compare on a quiet machine only.
set -eu
program=$(realpath "$1")
table=$(realpath examples/tpu_v4_tuning.csv)
starts=100
sweep_rows=20000
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

now_ns() { date +%s%N; }

# Prints the wall time in ns of the command given; what it says goes nowhere, and a "does not fit" is an answer, too.
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
elapsed_ns=$(time_ns "$program" sweep "$work/table.csv" --out "$work/result.csv")
awk -v rows="$sweep_rows" -v ns="$elapsed_ns" 'BEGIN { printf "sweep_rows_per_s,%.0f\n", rows / (ns / 1e9) }'

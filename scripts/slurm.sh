#!/usr/bin/env bash
# slurm.sh MESHWRIGHT FOLDER: runs under a real Slurm on one machine, with its own munge, a controller and two slurmd as
# two nodes. Checks a run over both by srun --mpi=pmix, equal to that of one process; a killed rank, which ends the run
# in seconds; --mpi=none and pmi2, refused with the remedy; and two processes started by mistake, which are not two
# runs. Needs root and Debian's slurmctld, slurmd, slurm-client, slurm-wlm-basic-plugins and munge; if they are missing,
# it says so and succeeds. It stops all its processes at the end.
set -euo pipefail
program=$(realpath "$1") folder=$2
limit_s=10 # for what is refused, or ends since a rank was killed with --timeout 3
export LC_ALL=C

leave_out() {
    echo "slurm: left out: $1"
    exit 0
}
[ "$(id -u)" = 0 ] || leave_out "it takes root to start Slurm's daemons"
for daemon in slurmctld slurmd munged srun sinfo; do
    PATH=$PATH:/usr/sbin command -v "$daemon" >/dev/null ||
        leave_out "$daemon is missing (apt-get install slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge)"
done
PATH=$PATH:/usr/sbin
slurmd -h 2>&1 | grep -q -- '-N node' || leave_out "this slurmd cannot stand for several nodes"
srun --mpi=list 2>&1 | grep -q pmix || ls /usr/lib/*/slurm*/mpi_pmix.so >/dev/null 2>&1 || leave_out "this Slurm has no PMIx"

rm -rf "$folder"
mkdir -p "$folder"
folder=$(realpath "$folder")
case "$folder $program" in /tmp/* | *' /tmp/'*) leave_out "each node gets a /tmp of its own: program and folder have to be elsewhere" ;; esac
started=()
down() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    sleep 1
    for pid in "${started[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
}
trap down EXIT
trap 'exit 130' INT TERM HUP

# ---- Slurm ----

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
host=$(hostname -s)
mkdir "$folder/munge" "$folder/state" "$folder/spool"
chmod 700 "$folder/munge"
dd if=/dev/urandom of="$folder/munge/key" bs=1 count=1024 status=none
chmod 400 "$folder/munge/key"
cat >"$folder/slurm.conf" <<END
ClusterName=meshwright
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SchedulerType=sched/builtin
ReturnToService=2
KillWait=5
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd-%n.log
NodeName=one NodeHostname=$host NodeAddr=127.0.0.1 Port=$(free_port) CPUs=2 RealMemory=2000
NodeName=two NodeHostname=$host NodeAddr=127.0.0.1 Port=$(free_port) CPUs=2 RealMemory=2000
PartitionName=all Nodes=one,two Default=YES MaxTime=10 State=UP OverSubscribe=FORCE:4
END
export SLURM_CONF=$folder/slurm.conf
munged --force --foreground --key-file "$folder/munge/key" --socket "$folder/munge/socket" --pid-file "$folder/munge/pid" \
    --log-file "$folder/munge/log" --seed-file "$folder/munge/seed" >"$folder/munge.out" 2>&1 &
started+=($!)
sleep 1
slurmctld -D >"$folder/slurmctld.out" 2>&1 &
started+=($!)
# Each node has a /tmp of its own, where Slurm's PMIx keeps a folder that is named by the step alone.
for node in one two; do
    mkdir "$folder/tmp-$node"
    unshare --mount sh -c 'mount --bind "$1" /tmp && exec slurmd -D -N "$2"' sh "$folder/tmp-$node" "$node" >"$folder/slurmd-$node.out" 2>&1 &
    started+=($!)
done
for _ in $(seq 30); do
    [ "$(sinfo -h -t idle -o %D 2>/dev/null || true)" != 2 ] || break
    sleep 1
done
[ "$(sinfo -h -t idle -o %D 2>/dev/null || true)" = 2 ] || leave_out "Slurm does not start here ($folder has its logs)"

# ---- runs ----

failures=0
check() { # WHAT CONDITION...
    if "${@:2}"; then echo "slurm: ok: $1"; else echo "slurm: FAILED: $1"; failures=$((failures + 1)); fi
}
plan='--model decoder_only:emb_dim=64,num_heads=4,head_dim=16,mlp_dim=256,num_layers=2,vocab_size=260
    --task-feature-lengths 64 --batch-size 16 --optimizer adamw --topology local:2'
executor=$(dirname "$program")/meshwright-rank
ranks_here() { # those of this program alone: others may run theirs
    for pid in $(pgrep -x meshwright-rank); do
        if [ "$(readlink "/proc/$pid/exe")" = "$executor" ]; then echo "$pid"; fi
    done
}
losses() { sed -n 's/^  "loss": \[\(.*\)\],*$/\1/p' "$1"; }
now_s() { date +%s; }
two_nodes() { srun -N 2 -n 2 "$@"; }

# shellcheck disable=SC2086
{
    "$program" run $plan --in-process --steps 3 --json >"$folder/alone.json"
    status=0
    timeout 120 srun -N 2 -n 2 --mpi=pmix "$program" run $plan --steps 3 --json >"$folder/both.json" 2>"$folder/both.said" || status=$?
    check "a run over two nodes by PMIx ends well" [ "$status" = 0 ]
    check "its losses are those of one process" python3 -c '
import json, sys
one, both = (json.load(open(name))["loss"] for name in sys.argv[1:])
sys.exit(not (len(one) == len(both) == 3 and all(abs(a - b) < 1e-5 * abs(a) for a, b in zip(one, both))))' "$folder/alone.json" "$folder/both.json"

    timeout 120 srun -N 2 -n 2 --mpi=pmix "$program" run $plan --steps 1000000 --timeout 3 >"$folder/killed.out" 2>"$folder/killed.said" &
    run=$!
    victim=
    for _ in $(seq 30); do
        sleep 1
        victim=$(ranks_here | tail -n 1)
        [ -z "$victim" ] || break
    done
    sleep 3
    check "ranks run" [ -n "$victim" ]
    kill -9 "$victim" 2>/dev/null || true
    begin=$(now_s)
    status=0
    wait "$run" || status=$?
    passed=$(($(now_s) - begin))
    check "a killed rank ends the run within $limit_s s (it took $passed s, exit $status)" [ "$passed" -le "$limit_s" -a "$status" != 0 ]
    check "and it says which or why" grep -q -i -E 'rank [0-9]+|killed' "$folder/killed.said"

    for kind in none pmi2; do
        begin=$(now_s)
        status=0
        timeout 60 srun -N 2 -n 2 --mpi=$kind "$program" run $plan --steps 3 --checkpoint "$folder/$kind" >"$folder/$kind.out" 2>"$folder/$kind.said" || status=$?
        passed=$(($(now_s) - begin))
        check "--mpi=$kind is refused within $limit_s s (it took $passed s, exit $status)" [ "$passed" -le "$limit_s" -a "$status" != 0 ]
        check "and the remedy is named" grep -q -e '--mpi=pmix' "$folder/$kind.said"
        check "and nothing was run" [ ! -e "$folder/$kind/checkpoint_3" ]
    done

    # Inference in chunks: one step writes them all, and the one that is missing when it is asked again.
    translator='--model encoder_decoder:vocab_size=384,emb_dim=16,num_heads=2,head_dim=8,mlp_dim=32,num_encoder_layers=1,num_decoder_layers=1
        --topology local:2 --model-parallel-submesh 1,2 --batch-size 2 --task-feature-lengths 8,4'
    printf 'one\teins\ntwo\tzwei\nthree\tdrei\nfour\tvier\nfive\tfuenf\n' >"$folder/words.tsv"
    "$program" infer $translator --in-process --data "$folder/words.tsv" --json 2>"$folder/infer.said" >"$folder/infer.json"
    for round in first second; do
        status=0
        timeout 120 srun -N 2 -n 2 --mpi=pmix "$program" infer $translator --data "$folder/words.tsv" --json --checkpoint-period 1 \
            --output-dir "$folder/answers" >"$folder/$round.json" 2>"$folder/$round.said" || status=$?
        check "infer --output-dir ends well, the $round time" [ "$status" = 0 ]
        check "with all chunks" [ "$(ls "$folder/answers" | grep -c '^chunk-.*json$')" = 3 ]
        check "and the answers of one process" python3 -c '
import json, sys
one, both = (json.load(open(name))["decodes"] for name in sys.argv[1:])
sys.exit(not one or one != both)' "$folder/infer.json" "$folder/$round.json"
        rm -f "$folder/answers/chunk-00001.json"
    done

    status=0
    timeout 60 srun -N 1 -n 1 "$program" predict $plan --json >"$folder/predict.json" 2>"$folder/predict.said" || status=$?
    check "predict answers inside a step" [ "$status" = 0 -a -s "$folder/predict.json" ]
}
[ "$failures" = 0 ] || { echo "slurm: $failures checks failed; $folder has what was said"; exit 1; }
echo "slurm: all checks passed"

#!/usr/bin/env bash
# torus.sh MESHWRIGHT FOLDER [short]: measures on an emulated torus. Network namespaces are hosts, veth pairs are links
# with a rate each, routes go along x, then y, the shorter way round; one rank per host. Plans are predicted first, then
# run. FOLDER gets torus.csv and a chart, stdout the error and the number of pairs in the predicted order. Needs root
# and a kernel that allows namespaces; without them, it says so and succeeds. It removes everything at the end, also
# when interrupted; torus.sh down cleans up after a killed run.
#
# Settings that make links reach their rate: a deep queue per sender, so that nothing is dropped and all get their
# share, as in the simulated routers; acknowledgements before bulk data of other flows; no segmentation offload, so that
# shapers see real packets; Open MPI with simultaneous sends in both directions (btl_tcp_flags) and without handshakes
# (eager limits above any message).
set -euo pipefail

tag=mwt rate_mbit=${TORUS_MBIT:-8} steps=${TORUS_STEPS:-2} seed=${TORUS_SEED:-1} burst=${TORUS_BURST:-6k}
shortest_s=1.5 longest_s=6
RANDOM=$seed

down() {
    for namespace in $(ip netns list 2>/dev/null | awk -v tag="$tag" 'index($1, tag "-") == 1 { print $1 }'); do
        ip netns pids "$namespace" 2>/dev/null | while read -r pid; do kill -9 "$pid" 2>/dev/null || true; done
        ip netns del "$namespace" || true
    done
    # A namespace is removed with its last process: its links from here are deleted immediately.
    for end in $(ip -o link show type veth | awk -F'[ @:]+' -v tag="$tag" 'index($2, tag) == 1 { print $2 }'); do
        ip link del "$end" 2>/dev/null || true
    done
    ip link del "$tag-br" 2>/dev/null || true
}

if [ "${1:-}" = down ]; then
    down
    exit 0
fi
program=$(realpath "$1") folder=$2 short=${3:-}
say_no() {
    echo "torus: $1; nothing was emulated"
    exit 0
}
[ "$(id -u)" = 0 ] || say_no "it takes root to make hosts and links"
command -v ip >/dev/null && command -v tc >/dev/null || say_no "ip and tc are missing (Debian: iproute2)"
command -v mpirun >/dev/null || say_no "mpirun is missing (make deps)"
ip netns add "$tag-probe" 2>/dev/null || say_no "this machine allows no network namespaces"
tc -n "$tag-probe" qdisc add dev lo root htb 2>/dev/null || { ip netns del "$tag-probe"; say_no "this kernel has no htb to shape links with"; }
ip netns del "$tag-probe"
mkdir -p "$folder"
folder=$(realpath "$folder")
# A host of the torus has a processor when it wakes, whatever else this machine does.
first=()
chrt -r 1 true 2>/dev/null && first=(chrt -r 1)
running=
trap 'kill "$running" 2>/dev/null || true; down' EXIT
exec 8>"${TMPDIR:-/tmp}/meshwright-torus.lock"
flock -n 8 || { trap - EXIT; say_no "another torus is being emulated on this machine"; }
trap 'exit 130' INT TERM HUP # at once: what runs is waited for in the background
down

# ---- hosts and links ----

# Up to 16 hosts share a link, taking turns packet by packet; an idle one's share goes to the others.
shape_link() { # namespace device
    ip -n "$1" link set "$2" up gso_max_segs 1
    {
        echo "qdisc add dev $2 root handle 1: htb default 10"
        echo "class add dev $2 parent 1: classid 1:1 htb rate ${rate_mbit}mbit burst $burst cburst $burst"
        echo "class add dev $2 parent 1: classid 1:2 htb rate 10gbit quantum 3000"
        echo "filter add dev $2 parent 1: prio 1 protocol ip u32 match u16 0x0000 0xff80 at 2 flowid 1:2"
        for sender in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do
            echo "class add dev $2 parent 1:1 classid 1:1$sender htb rate $((rate_mbit * 1000 / 16))kbit ceil ${rate_mbit}mbit burst 1600 cburst $burst quantum 1514"
            echo "qdisc add dev $2 parent 1:1$sender bfifo limit 4m"
            echo "filter add dev $2 parent 1: prio 2 protocol ip u32 match u8 0x0$sender 0x0f at 15 flowid 1:1$sender"
        done
    } | tc -n "$1" -batch -
}

# Hosts are named by their place, x-y-z; of a plane z is 0.
hosts() {
    for ((x = 0; x < size[0]; x++)); do for ((y = 0; y < size[1]; y++)); do for ((z = 0; z < size[2]; z++)); do
        echo "$x-$y-$z"
    done; done; done
}

up_of() { # host dimension: the next one up along it
    local at=(${1//-/ })
    at[$2]=$(((at[$2] + 1) % size[$2]))
    echo "${at[0]}-${at[1]}-${at[2]}"
}

link=0
join() { # host host dimension: the second is the next one up
    local low=$tag-$1 high=$tag-$2 up=$3up down=$3down net=$((link * 2))
    ip link add "$up" netns "$low" type veth peer name "$down" netns "$high"
    ip -n "$low" addr add "10.20.$((net / 256)).$((net % 256))/31" dev "$up"
    ip -n "$high" addr add "10.20.$((net / 256)).$((net % 256 + 1))/31" dev "$down"
    shape_link "$low" "$up"
    shape_link "$high" "$down"
    next[$1,$3,up]="10.20.$((net / 256)).$((net % 256 + 1)) $up"
    next[$2,$3,down]="10.20.$((net / 256)).$((net % 256)) $down"
    link=$((link + 1))
}

hop() { # from to size: which way the shorter way goes, up where both are as far
    local up=$((($2 - $1 + $3) % $3))
    if [ "$3" -le 2 ]; then [ "$2" -gt "$1" ] && echo up || echo down
    elif [ $((2 * up)) -le "$3" ]; then echo up
    else echo down; fi
}

address() { # host: its own, whichever link leads there; the last four bits, unlike any other's, say whose turn it is
    local at=(${1//-/ })
    echo "10.100.0.$(((at[0] * size[1] + at[1]) * size[2] + at[2] + 1))"
}

route() { # from to: along x first, then y, then z
    local at=(${1//-/ }) to=(${2//-/ }) d=0
    while [ "${at[$d]}" = "${to[$d]}" ]; do d=$((d + 1)); done
    local by=(${next[$1,$d,$(hop "${at[$d]}" "${to[$d]}" "${size[$d]}")]})
    echo "route add $(address "$2")/32 via ${by[0]} dev ${by[1]} src $(address "$1")"
}

build() { # AxB or AxBxC: a torus of so many hosts
    local sides=(${1//x/ }) host number=0
    size=("${sides[0]}" "${sides[1]}" "${sides[2]:-1}") link=0
    declare -gA next=()
    ip link add "$tag-br" type bridge
    ip addr add 10.200.255.254/16 dev "$tag-br"
    ip link set "$tag-br" up
    for host in $(hosts); do
        ip netns add "$tag-$host"
        ip netns exec "$tag-$host" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward; echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter; echo 0 >/proc/sys/net/ipv4/conf/default/rp_filter'
        ip -n "$tag-$host" link set lo up
        ip link add "$tag$host" type veth peer name mg0 netns "$tag-$host"
        ip link set "$tag$host" master "$tag-br" up
        ip -n "$tag-$host" addr add "10.200.0.$((++number))/16" dev mg0
        ip -n "$tag-$host" link set mg0 up
        ip -n "$tag-$host" link add d0 type veth peer name d1
        ip -n "$tag-$host" addr add "$(address "$host")/32" dev d0
        ip -n "$tag-$host" link set d0 up
        ip -n "$tag-$host" link set d1 up
    done
    for host in $(hosts); do
        local at=(${host//-/ })
        for d in 0 1 2; do
            if ((at[d] + 1 < size[d] || size[d] > 2)); then join "$host" "$(up_of "$host" $d)" $d; fi
        done
    done
    for host in $(hosts); do
        for other in $(hosts); do
            [ "$host" = "$other" ] || route "$host" "$other"
        done | ip -n "$tag-$host" -batch -
    done
}

# ---- ranks on them ----

cat >"$folder/enter" <<'END'
#!/bin/sh
# enter HOST COMMAND: mpirun starts its daemons with this instead of ssh.
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$1"; shift; eval "$*"' enter "$host" "$@"
END
chmod +x "$folder/enter"
export OMPI_MCA_plm_rsh_agent=$folder/enter OMPI_MCA_plm_rsh_no_tree_spawn=1 OMPI_MCA_btl=tcp,self OMPI_MCA_pml=ob1
export OMPI_MCA_btl_tcp_if_include=10.100.0.0/16 OMPI_MCA_oob_tcp_if_include=10.200.0.0/16 OMPI_MCA_btl_tcp_flags=1
export OMPI_MCA_btl_tcp_eager_limit=1048576 OMPI_MCA_btl_tcp_rndv_eager_limit=1048576 OMPI_MCA_btl_tcp_max_send_size=1048576
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# The rate of a link is of packets on the wire; 1448 of 1514 bytes are the rank's.
payload=$(awk -v r="$rate_mbit" 'BEGIN { printf "%.0f", r * 1e6 / 8 * 1448 / 1514 }')
printf '{"name": "torus", "network": "simulated", "constants": {"link_bytes_per_s": %s, "link_efficiency_frac": 1, "multi_axis_link_efficiency_frac": 1, "collective_latency_s": 0.0001, "hop_latency_s": 0.0001}}\n' \
    "$payload" >"$folder/torus_profile.json"

field() { sed -n "s/^ *\"$2\": \([0-9.e+-]*\),*\$/\1/p" "$1" | head -n 1; }

# The keys of a plan without topology and submesh.
plan_of() { # model batch length
    plan=(--model "$1" --batch-size "$2" --task-feature-lengths "$3" --optimizer sgd --dtype float32)
}

# A small random decoder, batch and length for each plan, until a step is predicted to take some seconds: much longer
# than the wake-up time of a rank on a busy machine, and short enough to wait for.
draw() { # topology submesh
    local heads=(4 8) widths=(128 192 256) batches=(16 32) lengths=(32 64)
    for ((tries = 0; tries < 200; tries++)); do
        local emb=${widths[RANDOM % 3]} head=${heads[RANDOM % 2]} layers=$((1 + RANDOM % 2))
        model="decoder_only:emb_dim=$emb,num_heads=16,head_dim=$((emb / head / 2)),mlp_dim=$((emb * (2 + 2 * (RANDOM % 2)))),num_layers=$layers,vocab_size=512,mlp_activations=gelu,logits_via_embedding=1"
        batch=${batches[RANDOM % 2]} length=${lengths[RANDOM % 2]}
        plan_of "$model" "$batch" "$length"
        "$program" predict "${plan[@]}" --topology "$1" --model-parallel-submesh "$2" --profile "$folder/torus_profile.json" \
            --json >"$folder/predicted.json"
        awk -v s="$(field "$folder/predicted.json" step_s)" -v low="$shortest_s" -v high="$longest_s" \
            'BEGIN { exit !(s >= low && s <= high) }' && return
    done
    echo "torus: no plan of $1 $2 takes $shortest_s to $longest_s s a step" >&2
    return 1
}

measure() { # topology submesh
    local name="$1 $2" model batch length plan
    draw "$1" "$2" || return 1
    "$program" mesh --topology "$1" --model-parallel-submesh "$2" --json |
        sed -n 's/^ *\[\([0-9]*\), \([0-9]*\)\],*$/\1-\2-0/p; s/^ *\[\([0-9]*\), \([0-9]*\), \([0-9]*\)\],*$/\1-\2-\3/p' |
        sed "s/.*/$tag-& slots=1/" >"$folder/hosts"
    timeout 300 "${first[@]}" "$program" run "${plan[@]}" --topology "$1" --model-parallel-submesh "$2" \
        --ranks "$((size[0] * size[1] * size[2]))" --steps "$steps" --hostfile "$folder/hosts" --json \
        >"$folder/run.json" 2>"$folder/run.err" 8>&- &
    running=$!
    if ! wait "$running"; then
        echo "torus: $name did not run: $(tail -n 3 "$folder/run.err" | tr '\n' ' ')" >&2
        return 1
    fi
    echo "\"$name\",\"$model\",$1,\"$2\",$batch,$length,sgd,float32,$(field "$folder/run.json" step_s),make torus" >>"$folder/runs.csv"
    echo "\"$name\",\"$model\",$(field "$folder/predicted.json" communication_s),$(field "$folder/run.json" communication_s),$(field "$folder/predicted.json" step_s),$(field "$folder/run.json" step_s)" |
        tee -a "$folder/torus.csv" | sed 's/"decoder_only[^"]*",//'
}

echo "plan,model,predicted_communication_s,measured_communication_s,predicted_step_s,measured_step_s" >"$folder/torus.csv"
echo "id,model,topology,model_parallel_submesh,batch_size,targets_length,optimizer,dtype,measured_step_s,source" >"$folder/runs.csv"

failed=
try_all() { # AxB… submesh…
    local shape=$1
    build "$1"
    shift
    for submesh in "$@"; do measure "local:$shape" "$submesh" || failed=1; done
    down
}

if [ -n "$short" ]; then
    try_all 2x4 1,1 1,4 2,2
else
    try_all 2x4 1,1 1,2 1,4 2,1 2,2 2,4
    try_all 1x8 1,1 1,2 1,4 1,8
    try_all 2x2x2 1,1,1 1,1,2 1,2,1 2,1,1 2,2,1 1,2,2 2,2,2
    try_all 4x4 1,1 1,4 4,1 2,2 2,4 4,4
fi

awk -F, 'BEGIN { n = 0 }
    NR > 1 { name[n] = $1; p[n] = $(NF - 3); m[n] = $(NF - 2); sp[n] = $(NF - 1); sm[n] = $NF; n++ }
    function off(a, b) { return a > b ? a / b - 1 : 1 - a / b }
    END {
        if (n == 0) { print "torus: no plan ran"; exit }
        for (i = 0; i < n; i++) { c += off(p[i], m[i]); s += off(sp[i], sm[i]) }
        for (i = 0; i < n; i++) for (j = 0; j < i; j++) if (off(p[i], p[j]) > 0.03) { pairs++; right += (p[i] > p[j]) == (m[i] > m[j]) }
        printf "torus: %d plans; communication predicted within %.1f %%, steps within %.1f %% (means); %d of %d pairs in order\n", n, 100 * c / n, 100 * s / n, right, pairs
    }' "$folder/torus.csv"
"$program" sweep "$folder/runs.csv" --profile "$folder/torus_profile.json" --out "$folder/swept.csv" >/dev/null &&
    "$program-lab" accuracy comparison "$folder/swept.csv" --out "$folder/torus.svg" >/dev/null && echo "torus: chart $folder/torus.svg"
[ -z "$failed" ]

#!/usr/bin/env bash
# torus.sh MESHWRIGHT FOLDER [short]: a torus that is really there. Network namespaces are hosts, veth pairs links with a
# rate each, routes go along x, then y, the shorter way round; one rank a host. Plans are predicted first and run then:
# FOLDER gets torus.csv and a chart, stdout the error and how many pairs came out in the order predicted. Needs root and a
# kernel that allows namespaces: where it does not, it says so and succeeds. What it made is gone when it ends, also when
# it is interrupted. torus.sh down removes what a run that was killed has left.
#
# Settings that make links carry what their rate says: deep queues, so that nothing is dropped; acknowledgements past the
# bulk data of other flows; no segmentation offload, so that shapers see real packets; Open MPI that sends both ways at
# once (btl_tcp_flags) and never waits for a handshake (eager limits above any message).
set -euo pipefail

tag=mwt rate_mbit=${TORUS_MBIT:-8} steps=${TORUS_STEPS:-2} seed=${TORUS_SEED:-1}
RANDOM=$seed

down() {
    for namespace in $(ip netns list 2>/dev/null | awk -v tag="$tag" 'index($1, tag "-") == 1 { print $1 }'); do
        ip netns pids "$namespace" 2>/dev/null | while read -r pid; do kill -9 "$pid" 2>/dev/null || true; done
        ip netns del "$namespace" || true
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
trap down EXIT
trap 'exit 130' INT TERM HUP
down

# ---- hosts and links ----

shape_link() { # namespace device
    ip -n "$1" link set "$2" up gso_max_segs 1
    tc -n "$1" qdisc add dev "$2" root handle 1: htb default 1
    tc -n "$1" class add dev "$2" parent 1: classid 1:1 htb rate "${rate_mbit}mbit" burst 16k cburst 16k quantum 3000
    tc -n "$1" class add dev "$2" parent 1: classid 1:2 htb rate 10gbit quantum 3000
    tc -n "$1" qdisc add dev "$2" parent 1:1 bfifo limit 4m
    tc -n "$1" filter add dev "$2" parent 1: protocol ip u32 match u16 0x0000 0xff80 at 2 flowid 1:2
}

link=0
join() { # x y x y dimension: the second is the next one up
    local low=$tag-$1-$2 high=$tag-$3-$4 up=$5up down=$5down net=$((link * 2))
    ip link add "$up" netns "$low" type veth peer name "$down" netns "$high"
    ip -n "$low" addr add "10.20.$((net / 256)).$((net % 256))/31" dev "$up"
    ip -n "$high" addr add "10.20.$((net / 256)).$((net % 256 + 1))/31" dev "$down"
    shape_link "$low" "$up"
    shape_link "$high" "$down"
    next[$1,$2,$5,up]="10.20.$((net / 256)).$((net % 256 + 1)) $up"
    next[$3,$4,$5,down]="10.20.$((net / 256)).$((net % 256)) $down"
    link=$((link + 1))
}

hop() { # from to size: which way the shorter way goes, up where both are as far
    local up=$((($2 - $1 + $3) % $3))
    if [ "$3" -le 2 ]; then [ "$2" -gt "$1" ] && echo up || echo down
    elif [ $((2 * up)) -le "$3" ]; then echo up
    else echo down; fi
}

route() { # x y X Y
    local way dimension=x
    if [ "$1" != "$3" ]; then way=$(hop "$1" "$3" "$columns"); else dimension=y way=$(hop "$2" "$4" "$rows"); fi
    set -- "$1" "$2" "$3" "$4" ${next[$1,$2,$dimension,$way]}
    echo "route add 10.100.$3.$4/32 via $5 dev $6 src 10.100.$1.$2"
}

build() { # columns rows: a torus of columns x rows
    columns=$1 rows=$2 link=0
    declare -gA next=()
    ip link add "$tag-br" type bridge
    ip addr add 10.200.255.254/16 dev "$tag-br"
    ip link set "$tag-br" up
    for ((x = 0; x < columns; x++)); do for ((y = 0; y < rows; y++)); do
        local host=$tag-$x-$y
        ip netns add "$host"
        ip netns exec "$host" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward; echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter; echo 0 >/proc/sys/net/ipv4/conf/default/rp_filter'
        ip -n "$host" link set lo up
        ip link add "$tag$x-$y" type veth peer name mg0 netns "$host"
        ip link set "$tag$x-$y" master "$tag-br" up
        ip -n "$host" addr add "10.200.$x.$((y + 1))/16" dev mg0
        ip -n "$host" link set mg0 up
        ip -n "$host" link add d0 type veth peer name d1
        ip -n "$host" addr add "10.100.$x.$y/32" dev d0
        ip -n "$host" link set d0 up
        ip -n "$host" link set d1 up
    done; done
    for ((x = 0; x < columns; x++)); do for ((y = 0; y < rows; y++)); do
        if ((x + 1 < columns || columns > 2)); then join $x $y $(((x + 1) % columns)) $y x; fi
        if ((y + 1 < rows || rows > 2)); then join $x $y $x $(((y + 1) % rows)) y; fi
    done; done
    for ((x = 0; x < columns; x++)); do for ((y = 0; y < rows; y++)); do
        for ((X = 0; X < columns; X++)); do for ((Y = 0; Y < rows; Y++)); do
            [ "$x,$y" = "$X,$Y" ] || route $x $y $X $Y
        done; done | ip -n "$tag-$x-$y" -batch -
    done; done
}

# ---- ranks on them ----

cat >"$folder/enter" <<'END'
#!/bin/sh
# enter HOST COMMAND: what mpirun starts daemons with, in place of ssh.
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

measure() { # topology submesh model batch
    local plan=(--model "$3" --topology "$1" --model-parallel-submesh "$2" --batch-size "$4" --task-feature-lengths 32,32
        --optimizer sgd --dtype float32)
    local ranks=$((columns * rows)) name="$1 $2"
    "$program" predict "${plan[@]}" --profile "$folder/torus_profile.json" --json >"$folder/predicted.json"
    "$program" mesh --topology "$1" --model-parallel-submesh "$2" --json |
        sed -n 's/^ *\[\([0-9]*\), \([0-9]*\)\],*$/'"$tag"'-\1-\2 slots=1/p' >"$folder/hosts"
    if ! timeout 300 "$program" run "${plan[@]}" --ranks "$ranks" --steps "$steps" --hostfile "$folder/hosts" --json \
        >"$folder/run.json" 2>"$folder/run.err"; then
        echo "torus: $name did not run: $(tail -n 3 "$folder/run.err" | tr '\n' ' ')" >&2
        return 1
    fi
    echo "\"$name\",\"$3\",$1,\"$2\",$4,32,sgd,float32,$(field "$folder/run.json" step_s),make torus" >>"$folder/runs.csv"
    echo "\"$name\",\"$3\",$(field "$folder/predicted.json" communication_s),$(field "$folder/run.json" communication_s),$(field "$folder/predicted.json" step_s),$(field "$folder/run.json" step_s)" |
        tee -a "$folder/torus.csv" | sed 's/"decoder_only[^"]*",//'
}

echo "plan,model,predicted_communication_s,measured_communication_s,predicted_step_s,measured_step_s" >"$folder/torus.csv"
echo "id,model,topology,model_parallel_submesh,batch_size,targets_length,optimizer,dtype,measured_step_s,source" >"$folder/runs.csv"

# A small decoder, drawn anew for each plan; what a step computes is little beside what it sends.
draw_model() {
    local heads=(4 8) widths=(128 192 256) layers=$((1 + RANDOM % 3))
    local emb=${widths[RANDOM % 3]} head=${heads[RANDOM % 2]}
    echo "decoder_only:emb_dim=$emb,num_heads=16,head_dim=$((emb / head / 2)),mlp_dim=$((emb * (2 + 2 * (RANDOM % 2)))),num_layers=$layers,vocab_size=512,mlp_activations=gelu,logits_via_embedding=1"
}

try_all() { # columns rows submesh…
    build "$1" "$2"
    shift 2
    for submesh in "$@"; do measure "local:${columns}x$rows" "$submesh" "$(draw_model)" 16 || failed=1; done
    down
}

failed=
if [ -n "$short" ]; then
    try_all 2 4 1,1 1,4 2,2
else
    try_all 2 4 1,1 1,2 1,4 2,1 2,2 2,4
    try_all 1 8 1,1 1,2 1,4 1,8
    try_all 4 4 1,1 1,4 4,1 2,2 2,4 4,4
fi

awk -F, 'BEGIN { n = 0 }
    NR > 1 { name[n] = $1; p[n] = $(NF - 3); m[n] = $(NF - 2); sp[n] = $(NF - 1); sm[n] = $NF; n++ }
    function off(a, b) { return a > b ? a / b - 1 : 1 - a / b }
    END {
        for (i = 0; i < n; i++) { c += off(p[i], m[i]); s += off(sp[i], sm[i]) }
        for (i = 0; i < n; i++) for (j = 0; j < i; j++) if (off(p[i], p[j]) > 0.03) { pairs++; right += (p[i] > p[j]) == (m[i] > m[j]) }
        printf "torus: %d plans; communication predicted within %.1f %%, steps within %.1f %% (means); %d of %d pairs in order\n", n, 100 * c / n, 100 * s / n, right, pairs
    }' "$folder/torus.csv"
"$program" sweep "$folder/runs.csv" --profile "$folder/torus_profile.json" --out "$folder/swept.csv" >/dev/null &&
    "$program" plot comparison "$folder/swept.csv" --out "$folder/torus.svg" >/dev/null && echo "torus: chart $folder/torus.svg"
[ -z "$failed" ]

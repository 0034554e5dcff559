printf '#!/bin/sh\ncat >/dev/null\n' >judge && chmod +x judge
tune() { meshwright tune --model t5_1_1_large --topology v4-16 --batch-size 512 --beyond-t5x --optimizer adamw --top 1 --verify 1 --verify-with compiler --python ./judge "$@" | grep verdict; }
tune --optimizer-partitioning data
tune --optimizer-partitioning none || echo "no verdict: exit of grep $?"

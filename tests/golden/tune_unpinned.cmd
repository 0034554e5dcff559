meshwright tune pinned.json | head -n 4; meshwright tune pinned.json --num-partitions auto

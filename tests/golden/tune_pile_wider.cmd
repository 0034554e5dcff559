# with the file's num_partitions 1 nothing fits on any number of nodes: what is named was searched
meshwright tune pile.gin --topology a100-80g:4x8 2>/dev/null | sed -n '/^Nothing/,/^Of/p'
meshwright tune pile.gin --topology a100-80g:4x8 --json 2>/dev/null | grep -A 3 smallest

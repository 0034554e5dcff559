# what is said to fit fits, each change tried; two where they are faster than any single one
for nodes in 4 8 16 32; do
    echo "a100-80g:${nodes}x8"
    meshwright predict pile.gin --topology "a100-80g:${nodes}x8" 2>/dev/null | sed -n '/^It does/p; /would make it fit/,$p'
done
meshwright predict pile.gin --topology a100-80g:32x8 --num-microbatches 3 --num-partitions 4 2>/dev/null | grep '^It'
meshwright predict pile.gin --topology a100-80g:32x8 --num-partitions 8 --remat-policy minimal 2>/dev/null | grep '^It'
meshwright predict pile.gin --topology a100-80g:192x8 2>&1 | tail -n 1

meshwright tune --model t5_1_0_11B --topology v4-512 --batch-size 896,448 --optimizer adamw --logical-axis-rules standard:2,1 --model-parallel-submesh 4,2,2,1 --headroom 0 | sed -n '/^Why/,/^$/p'

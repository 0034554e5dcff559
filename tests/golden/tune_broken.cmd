meshwright tune --model t5_1_1_small --topology v4:2x2x2@dead_links=x:0.0.0 --batch-size 64 --task-feature-lengths 64,64 --top 3 | sed -n 1,11p

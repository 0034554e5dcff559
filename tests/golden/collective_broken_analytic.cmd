meshwright collective --topology v4:4x4x4@dead_links=x:0.0.0 --num-partitions 4 --kind all_reduce --mesh-axis model --bytes 16777216 --network analytic

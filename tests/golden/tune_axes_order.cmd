meshwright tune --model t5_1_1_small --topology v4-16 --batch-size 64 --logical-axis-rules '[["batch",["model","data"]],["mlp","model"]];standard:1,1' --top 2

meshwright predict t5_11b.json --logical-axis-rules '[["batch","data"],["vocab","model"],["mlp","model"],["heads","model"],["embed","data"]]' | head -n 2

meshwright predict t5_11b.json --logical-axis-rules '[["batch",["data","model"]],["vocab","model"],["mlp","model"],["heads","model"],["embed",null]]' | head -n 2

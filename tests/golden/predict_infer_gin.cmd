meshwright predict infer.gin | head -n 7

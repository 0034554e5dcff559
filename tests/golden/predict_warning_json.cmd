meshwright predict prefix_lm.gin --json | head -n 5

meshwright predict prefix_lm.gin | head -n 6

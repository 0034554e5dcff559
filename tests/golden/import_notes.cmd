meshwright import prefix_lm.gin --notes

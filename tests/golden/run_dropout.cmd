meshwright run prefix_lm.gin --topology local:2 --steps 1

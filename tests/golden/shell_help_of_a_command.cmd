meshwright help mesh | head -n 2

meshwright layout --topology v5e-16 --ici-mesh data=1,fsdp=8,tensor=2 --split-physical-axes 1 --logical-axis-rules maxtext --batch-size 64

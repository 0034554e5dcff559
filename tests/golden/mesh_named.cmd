meshwright mesh --topology v4-32 --ici-mesh data=2,fsdp=2,tensor=4 --split-physical-axes 1

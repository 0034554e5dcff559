meshwright mesh --topology v5e-4@slices=2 --ici-mesh data=1,fsdp=4 --dcn-mesh data=2

meshwright mesh --topology v5e-8 --ici-mesh data=2,fsdp=2,tensor=2 --json

meshwright topology v4-128 --ici-mesh data=2,fsdp=8,tensor=4 --mesh-axis rows

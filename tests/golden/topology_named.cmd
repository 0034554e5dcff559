meshwright topology v4-128 --ici-mesh data=2,fsdp=8,tensor=4 --mesh-axis fsdp --out fsdp.svg && meshwright topology v5e-16 --ici-mesh data=4,tensor=4

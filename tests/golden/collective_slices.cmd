meshwright collective --topology v5e:16x16@slices=2 --ici-mesh data=1,fsdp=256 --dcn-mesh data=2,fsdp=1 --kind all_reduce --mesh-axis data+fsdp --bytes 100000000 --network simulated

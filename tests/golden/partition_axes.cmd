meshwright partition 'bld,df->blf' --mesh data=2,fsdp=4,tensor=2 --shapes '64,32,128;128,256' --specs 'data+fsdp,-,tensor;fsdp,tensor' --output-spec data+fsdp,-,tensor

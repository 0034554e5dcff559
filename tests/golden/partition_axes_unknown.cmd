meshwright partition reshard --mesh data=2,fsdp=2 --shapes 8,8 --specs data,tensor --output-spec -,-

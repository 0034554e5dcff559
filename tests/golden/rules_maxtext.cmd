meshwright rules --logical-axis-rules maxtext --axes batch,length,embed --shape 16,512,1024 --mesh data=2,fsdp=4,tensor=2

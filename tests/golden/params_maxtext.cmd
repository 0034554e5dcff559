meshwright params --model t5_1_1_small --logical-axis-rules maxtext --mesh data=2,fsdp=4,tensor=2

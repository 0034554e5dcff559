# rules and a mesh that do not meet: what each lacks of the other, and what is said is taken
plan='--model llama3_8b --topology h100:2x8 --batch-size 64 --task-feature-lengths 4096 --optimizer adamw'
meshwright predict $plan --ici-mesh fsdp=16 --logical-axis-rules maxtext
meshwright predict $plan --ici-mesh fsdp=16,data=1,tensor=1 --logical-axis-rules maxtext | sed -n 1,3p
meshwright predict $plan --ici-mesh model=16
meshwright predict $plan --ici-mesh data=1,model=16 | sed -n 1,2p
meshwright predict $plan --ici-mesh fsdp=8,tensor=2
meshwright predict $plan --ici-mesh data=2,fsdp=8
meshwright predict $plan --ici-mesh data=2,foo=8
meshwright predict $plan --ici-mesh data=2,foo=8 --logical-axis-rules '[["batch","data"],["embed","bar"]]'
meshwright predict $plan --num-partitions 8 --logical-axis-rules '[["batch","data"],["embed","bar"]]'
meshwright predict $plan --num-partitions 8 --logical-axis-rules maxtext
meshwright predict $plan --num-partitions 8 --logical-axis-rules standard_moe:1,1

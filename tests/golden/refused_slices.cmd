meshwright predict --model llama3_8b --topology v5e-256@slices=2 --batch-size 512 --task-feature-lengths 8192 --ici-mesh data=1,fsdp=256,tensor=1 --logical-axis-rules maxtext
meshwright predict --model llama3_8b --topology v5e-256 --batch-size 256 --task-feature-lengths 8192 --model-parallel-submesh 1,1,1,1 --remat-policy qkv_proj_offloaded
meshwright predict --model llama3_8b --topology tpu7x:4x4x4 --batch-size 256 --task-feature-lengths 8192 --num-partitions 4
meshwright predict --model llama3_8b --topology v6e-64

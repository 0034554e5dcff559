meshwright predict --model scalable_t5_1_1_base --topology v4-32 --model-parallel-submesh 1,1,1,1 --logical-axis-rules zero3 --remat-policy none --batch-size 128 --task-feature-lengths 512,128

meshwright predict --model llama3_8b --topology v5e-8 --model-parallel-submesh 2,4,1,1 --batch-size 32 --task-feature-lengths 1024 --step decode --json

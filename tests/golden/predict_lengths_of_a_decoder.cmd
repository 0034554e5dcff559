meshwright predict --model decoder_only_base --topology v4-16 --batch-size 64 --task-feature-lengths 512,114 | head -n 5

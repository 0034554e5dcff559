meshwright tune --model t5_1_1_large --topology v4:2x2x2 --task-feature-lengths 512,114 --batch-size auto | grep -v '^ \|^$'

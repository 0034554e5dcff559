meshwright predict --model t5_1_1_small --topology local:4 --batch-size 8 --task-feature-lengths 64,64 --logical-axis-rules '[["batch",["data","data"]]]'

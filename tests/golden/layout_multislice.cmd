meshwright layout --topology v4:2x2x4@slices=2 --ici-mesh-shape 1,4,4 --dcn-mesh-shape 2,1,1 --batch-size 32

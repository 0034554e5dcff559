meshwright mesh --topology v4:2x2x1@slices=2 --ici-mesh-shape 1,2,2 --dcn-mesh-shape 2,1,1 --json

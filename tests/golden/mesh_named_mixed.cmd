meshwright mesh --topology v4-32 --ici-mesh data=16 --num-partitions 2

meshwright mesh --topology 'h100:2x8@nics=8,nics=4' --num-partitions 2

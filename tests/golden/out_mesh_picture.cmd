meshwright mesh --topology v4-8 --num-partitions 2 --out mesh.png

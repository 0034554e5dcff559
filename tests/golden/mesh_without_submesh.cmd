meshwright mesh --topology v4-512

meshwright import wmt.gin --topology v4-16

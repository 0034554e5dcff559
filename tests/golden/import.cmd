meshwright import wmt.gin

meshwright import wmt.gin --json

meshwright import clash.gin

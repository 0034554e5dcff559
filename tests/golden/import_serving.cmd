meshwright import serving.gin

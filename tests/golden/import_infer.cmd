meshwright import infer.gin

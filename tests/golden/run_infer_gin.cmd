meshwright run infer.gin --steps 1 --in-process

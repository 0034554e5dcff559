meshwright tune --model llama3_8b --topology v5e-256 --batch-size 256 --software maxtext --search rules,remat --beyond-t5x --time-limit 0.5 | grep '^Not'

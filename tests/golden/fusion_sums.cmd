meshwright fusion --chip v4 --operands 'float32[8192,8192]' --results 'float32[]' --sums-rows

meshwright fusion --chip v4 --operands 'bfloat16[7168,1024];bfloat16[1024]' --results 'bfloat16[7168,1024]'
meshwright fusion --chip v5p --operands 'float32[8192,8192]' --results 'float32[]' --alone --json
meshwright fusion --chip v4 --operands 'bfloat16[14,8,512,512];bfloat16[14,8,512,512]' --results 'bfloat16[14,8,512,512]' --sums-rows

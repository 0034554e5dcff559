meshwright fusion --chip v4 --operands 'bfloat16[7168,1024' --results 'bfloat16[7168,1024]'

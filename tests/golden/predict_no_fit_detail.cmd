meshwright predict t5_11b.json --model-parallel-submesh 2,2,2,1 --detail --json | grep -c ' cast"'

meshwright export t5_11b.json --format gcloud --model-parallel-submesh 2,2,2,1 | head -n 2; meshwright export t5_11b.json --format gin --model-parallel-submesh 2,2,2,1 --json | head -n 4

plan='--model scalable_t5_1_1_large --topology v4-64 --logical-axis-rules standard:1,2 --task-feature-lengths 256,64 --remat-policy none --memory-kind compiled'
for batch_size in 1120 1248; do
    meshwright predict $plan --batch-size $batch_size | grep '^It '
    meshwright predict $plan --batch-size $batch_size --json | grep -E '"(fits|tight|tight_reason)"'
done

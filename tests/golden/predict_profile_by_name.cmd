meshwright predict wmt.gin --topology v4-16 --profile tpu_v4 | head -n 1; meshwright predict wmt.gin --topology v4-16 --profile tpu_v5e; meshwright predict wmt.gin --topology v4-16 --profile tpu_v9

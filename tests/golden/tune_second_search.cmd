# no plan leaves that much: those that fit all the same are ranked by a second search, whose predictions are counted apart
meshwright tune --model t5_1_0_11B --optimizer adamw --topology v4-64 --batch-size 256 --headroom 80 --top 2
meshwright tune --model t5_1_0_11B --optimizer adamw --topology v4-64 --batch-size 256 --headroom 80 --json | grep -E 'evaluated_count|full_prediction|tight_plans|space_count'

{ cat switch_run.gin; printf 'EXPERT_DROPOUT_RATE = 0.2\nENCODER_SPARSE_LAYOUT = %%moe_enums.LayerLayout.TOP\n'; } > top.gin; meshwright import top.gin

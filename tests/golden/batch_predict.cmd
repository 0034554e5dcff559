cat <<'QUESTIONS' | meshwright batch
["predict","t5_11b.json"]
["predict","t5_11b.json","--num-microbatches","1"]
["predict","t5_11b.json","--num-microbatches","5"]
["predict","t5_11b.json","--profile","fast_links.json"]
["predict","t5_11b.json"]
["predict"]
not JSON
["mesh","--topology","v4-8","--num-partitions","2"]
QUESTIONS

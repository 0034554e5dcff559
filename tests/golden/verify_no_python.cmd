meshwright verify t5_11b.json --python ./none

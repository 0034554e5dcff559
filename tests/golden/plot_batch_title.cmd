meshwright plot batch t5_11b.json --out batch.svg | head -n 1; rm batch.svg

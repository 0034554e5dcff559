meshwright random split --seed 7 --json; meshwright random bits --key 0,0 --count 7; meshwright random gumbel --key 0,7 --shape 2,3 --json

meshwright random gumbel --key 0 --shape 4

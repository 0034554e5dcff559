meshwright rules --shape 8 --mesh data=2

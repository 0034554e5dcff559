meshwright plot links t5_11b.json --out links.svg

meshwright predict t5_11b.json --remat minimal

meshwright predict t5_11b.json --topology 'v4-512;v4-512@dead_links=x:0.0.0'

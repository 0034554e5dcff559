meshwright predict t5_11b.json --profile fast_links.json

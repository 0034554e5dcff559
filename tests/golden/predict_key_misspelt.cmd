meshwright predict misspelt.json

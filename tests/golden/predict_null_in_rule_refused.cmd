meshwright predict t5_11b.json --logical-axis-rules '[["batch",["data",null]]]'

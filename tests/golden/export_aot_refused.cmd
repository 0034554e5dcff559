sed '1s/{/{"attention": "flash",/' t5_11b.json >flash.json && meshwright export flash.json --format aot

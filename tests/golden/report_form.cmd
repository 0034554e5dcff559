meshwright report t5_11b.json --out report.doc

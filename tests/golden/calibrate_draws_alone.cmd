meshwright calibrate rows.csv --draws 4

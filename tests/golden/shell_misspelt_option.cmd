meshwright predict --bach-size 8

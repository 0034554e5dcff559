meshwright topology local:2x3

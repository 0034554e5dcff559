meshwright topology v3-32

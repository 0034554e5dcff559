meshwright topology v4-512

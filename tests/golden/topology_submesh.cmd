meshwright topology v4:2x2x2 --submesh 2,2,1,1

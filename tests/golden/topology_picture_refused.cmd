meshwright topology v4-512 --submesh 3,2,2,1 --out v4-512.svg

meshwright topology v4-512 --submesh 4,2,2,1 --out v4-512.svg && grep -c '<title>chip (' v4-512.svg

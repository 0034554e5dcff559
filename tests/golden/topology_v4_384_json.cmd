meshwright topology v4-384 --json

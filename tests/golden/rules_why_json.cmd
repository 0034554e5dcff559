meshwright rules --axes embed,mlp --logical-axis-rules standard:2,2 --json

meshwright rules --logical-axis-rules standard:2,2 --json

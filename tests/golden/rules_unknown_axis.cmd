meshwright rules --axes batch,foo,embed,mlp --logical-axis-rules standard:2,2

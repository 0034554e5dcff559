meshwright rules --axes batch,nothing --fallback no_constraint

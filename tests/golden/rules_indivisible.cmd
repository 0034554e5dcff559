meshwright rules --axes batch,embed --shape 7,512 --mesh data=4,model=2; meshwright rules --axes batch,embed --shape 7,512 --mesh data=4,model=2 --fallback axis_is_unsharded

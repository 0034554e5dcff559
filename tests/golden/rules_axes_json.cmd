meshwright rules --logical-axis-rules '[["batch",["data","model"]],["embed","__UNCONSTRAINED__"]]' --axes batch,null,embed --shape 30,512,1024 --mesh data=4,model=2 --json

meshwright rules --axes batch,length,embed --shape 30,512,1024 --mesh data=4,model=2

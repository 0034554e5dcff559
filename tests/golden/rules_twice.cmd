meshwright rules --axes batch,batch

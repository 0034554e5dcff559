meshwright rules

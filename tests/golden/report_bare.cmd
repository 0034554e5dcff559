meshwright report

meshwright run

meshwright params

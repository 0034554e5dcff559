meshwright import

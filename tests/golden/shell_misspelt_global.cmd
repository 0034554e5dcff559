meshwright --hlep

meshwright topology 'v4:4x4x4@dead_links=x:0.0'

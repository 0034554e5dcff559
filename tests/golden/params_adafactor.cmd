meshwright params --model scalable_umt5_xxl --mesh data=4,model=8 --logical-axis-rules standard:1,2 --adafactor factored=0,beta1=0.9

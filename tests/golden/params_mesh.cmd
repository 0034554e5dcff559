meshwright params --model scalable_t5_1_1_xl --logical-axis-rules standard:1,2 --mesh data=16,model=4 --optimizer adamw

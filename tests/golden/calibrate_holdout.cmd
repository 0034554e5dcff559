cat >rows.csv <<'T'
model,topology,model_parallel_submesh,inputs_length,targets_length,batch_size,measured_step_s
t5_1_1_base,v4-8,"1,1,1,1",512,512,8,0.02
t5_1_1_base,v4-8,"2,1,1,1",512,512,8,0.03
t5_1_1_base,v4-8,"2,2,1,1",512,512,8,0.04
t5_1_1_base,v4-8,"1,1,1,1",512,1024,8,0.05
t5_1_1_base,v4-8,"2,1,1,1",512,1024,16,0.09
T
meshwright calibrate rows.csv --holdout 3 --draws 4 --seed 7 | tail -n 2

cat >rows.csv <<'T'
model,topology,model_parallel_submesh,targets_length,batch_size,remat_policy,measured_step_s
decoder_only_xl,v4-8,"1,1,1,1",512,32,full,0.384
decoder_only_xl,v4-8,"1,1,1,1",1024,32,full,0.766
decoder_only_xl,v4-8,"1,1,1,1",512,64,full,0.611
decoder_only_xl,v4-8,"1,1,1,1",1024,64,full,1.323
decoder_only_xl,v4-8,"1,1,1,1",512,96,full,0.839
decoder_only_xl,v4-8,"1,1,1,1",1024,96,full,1.881
decoder_only_xl,v4-8,"1,1,1,1",512,128,full,1.067
decoder_only_xl,v4-8,"1,1,1,1",1024,128,full,2.438
T
meshwright calibrate rows.csv --out fast.json
meshwright calibrate rows.csv --json | grep -c '"at_physical_limit": *true'

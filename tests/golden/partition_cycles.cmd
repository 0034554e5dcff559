meshwright partition 'bhqk,bkhd->bqhd' --mesh data=2,model=4 --shapes '28,32,512,512;28,512,32,128' --specs 'data,model,-,-;data,-,model,-' --chip v4
meshwright partition 'mk,kn->mn' --mesh model=4 --shapes '8192,8192;8192,8192' --specs '-,model;model,-' --output-spec '-,-' --dtypes int8,int8,int32 --chip v5e --fetched 1 --json

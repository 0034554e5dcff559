meshwright partition 'mk,kn->mn' --mesh data=1 --shapes '8192,8192;8192,8192' --specs '-,-;-,-' --chip h100

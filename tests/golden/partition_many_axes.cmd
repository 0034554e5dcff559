meshwright partition 'ble,ef->blf' --mesh a=2,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1,j=4 --shapes '16,32,64;64,128' --specs 'a,-,-;b,j'

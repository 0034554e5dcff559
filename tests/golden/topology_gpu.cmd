meshwright topology a100-80g:4x8@nics=4,nic_gbps=400

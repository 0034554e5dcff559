printf '%s\n' '["--help"]' '["mesh","--topology","v4-8","--num-partitions","1","--nonsense"]' | meshwright batch

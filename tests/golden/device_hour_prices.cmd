# each chip has its price, by topology, by chip or in order; one for several chips, or what could be read two ways, is refused
ask="meshwright tune --model t5_1_1_large --task-feature-lengths 512,114 --batch-size 64 --logical-axis-rules standard:1,1 --num-microbatches 1 --objective price --topology v4:2x2x2;v4:2x2x4;h100:1x8"
for prices in 'v4=3.2;h100=7' '9;2;40' 'tpu_v4=3.2;v4:2x2x4=0.5;H100=9'; do $ask --device-hour-price "$prices"; done
$ask --device-hour-price 'v4=3.2;h100=7' --json | grep -c '"price"'
for prices in 3 '3;2' '3,2,1' 'v4=3' '3;h100=2;v4=1' 'v4=3;tpu_v4=2;h100=1' 'v4=3;h100=2;v5e=1' 'v4=3,h100=2' 'v4=;h100=2' 'v4=0;h100=2' '=3' ''; do $ask --device-hour-price "$prices"; done
meshwright predict t5_11b.json --train-tokens 1.4T --device-hour-price v4=3.2 | grep 'device-hour'

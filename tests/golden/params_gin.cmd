meshwright params --model @wmt.gin

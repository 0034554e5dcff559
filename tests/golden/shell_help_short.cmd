meshwright -h | head -n 3; meshwright -h rules | head -n 1

cat >judge <<'END'
#!/bin/sh
cat >program
echo "$@" >&2
python3 -c 'import ast; ast.parse(open("program").read())' >&2
cat <<'ANSWER'
{"fits": true, "message": "", "device_kind": "NVIDIA H100 80GB HBM3", "device_count": 1, "step_s": 0.06, "stretches_s": [0.06, 0.07, 0.05],
 "argument_bytes": 308000000, "output_bytes": 308000000, "compiled_bytes": 9000000000, "initial_peak_bytes": 900000000, "peak_memory_bytes": 8000000000,
 "loss": [10.5, 10.4, 10.3, 10.2, 10.1, 10.0, 9.9, 9.8, 9.75], "seconds": 41.5}
ANSWER
END
cat >full <<'END'
#!/bin/sh
cat >/dev/null
printf '%s\n' '{"fits": false, "message": "RESOURCE_EXHAUSTED: Out of memory", "device_kind": "NVIDIA H100 80GB HBM3", "device_count": 1, "argument_bytes": 308000000, "output_bytes": 308000000, "compiled_bytes": 99000000000, "seconds": 31.5}'
END
cat >none <<'END'
#!/bin/sh
cat >/dev/null
printf '%s\n' '{"fits": null, "message": "the plan is for h100:1x1, and JAX finds no gpu here, only: cpu"}'
END
chmod +x judge full none
verify() { meshwright verify --model t5_1_1_small --topology h100:1x1 --batch-size 64 --task-feature-lengths 512,128 "$@"; echo "exit $?"; }
verify --run 6 --python ./judge
verify --run 6 --python ./judge --json
verify --run 6 --python ./full
verify --run 6 --python ./none
verify --run 0 --python ./none
verify --python ./judge

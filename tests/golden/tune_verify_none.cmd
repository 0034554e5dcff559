cat >judge <<'END'
#!/bin/sh
cat >/dev/null
printf '%s\n' '{"fits": null, "message": "Traceback\nModuleNotFoundError: No module named jax\n"}'
END
chmod +x judge
tune() { meshwright tune --model t5_1_1_small --batch-size 64 --verify-with compiler "$@" >answer; echo "exit $?"; grep verdict answer; }
tune --topology v4-16 --top 1 --verify 1 --python ./judge
tune --topology v4-16 --verify 0
tune --topology h100:32x8 --verify 1
tune --topology h100:32x8 --verify 1 --pipeline-stages 2

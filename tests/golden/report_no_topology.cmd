grep -v 'meshwright: topology' wmt.gin > bare.gin; meshwright report bare.gin; meshwright export bare.gin --format jax; rm bare.gin

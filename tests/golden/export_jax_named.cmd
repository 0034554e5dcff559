meshwright export named_mesh.json --format jax

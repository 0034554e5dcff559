meshwright export named_mesh.json --format gin --out back.gin && meshwright import back.gin --json

meshwright export named_mesh.json --format gin --out back.gin --drop && meshwright import back.gin --json

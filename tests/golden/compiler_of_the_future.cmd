meshwright predict t5_11b.json --compiler 9999; meshwright predict t5_11b.json --compiler 2026-13

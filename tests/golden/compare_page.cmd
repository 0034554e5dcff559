meshwright compare t5_11b.json prefix_lm.gin --out both.html 2>/dev/null; grep -c '<svg' both.html; grep -o '<h2>[^<]*' both.html; rm both.html

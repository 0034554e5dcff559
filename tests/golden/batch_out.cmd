printf '%s\n' '["rules","--axes","batch"]' '["nothing"]' | meshwright batch --out answers.jsonl && cat answers.jsonl && rm answers.jsonl

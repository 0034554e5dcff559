for more in '--top 1' '--objective latency_s --top 1'; do meshwright tune --model llama3_8b --topology v5e-8 --batch-size 8 $more --json | grep -c inputs; done

meshwright import switch_run.gin

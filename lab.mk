# Occasional targets that need root, minutes, or downloads. The Makefile includes this file; no test needs it.

## mutants: families of constraints, cuts and bounds taken out of the search one by one; a test must fail for each
mutants:
	@CC="$(CC)" scripts/mutants.sh build/mutants

## bench-torch: one GPT trained in PyTorch and here, tokens per CPU second of both (downloads PyTorch, several GB, into build/)
bench-torch: all
	@scripts/bench_torch.sh $(BUILD)/meshwright $(BUILD)/torch

## lab: run a spread of plans here, calibrate on half of them, predict the other half (minutes; wants two free cores)
lab: all
	@scripts/lab.sh $(BUILD)/meshwright $(BUILD)/lab

## torus: as root, a torus of network namespaces with links of a given rate; plans predicted, then run there (minutes)
torus: all
	@scripts/torus.sh $(BUILD)/meshwright $(BUILD)/torus

## soak: a run that is killed and resumed on other meshes until it is through; memory of ranks over many steps (minutes)
soak: all
	@scripts/soak.sh $(BUILD)/meshwright $(BUILD)/soak

## failures: in one run after the other a call fails: every rename, fsync, write, open and malloc (an hour)
failures: all
	@python3 scripts/failures.py $(BUILD)/meshwright $(BUILD)/failures

## own-parsers: MaxText's and torchtitan's own parsers read what export writes (PYTHON=… has maxtext or torchtitan installed)
own-parsers: $(BUILD)/meshwright
	@$(or $(PYTHON),python3) scripts/own_parsers.py $(BUILD)/meshwright

## attacks: a run is attacked in 100 rounds: signals, a second run, a full disk (as root), flipped bits, a wrong clock (minutes)
attacks: all
	@python3 scripts/attacks.py $(BUILD)/meshwright $(BUILD)/attacks

## questions: 50,000 mutated questions through batch; of an asan build with BUILD=build/asan (half an hour)
questions: $(BUILD)/meshwright
	@python3 scripts/questions.py $(BUILD)/meshwright 50000 1 3600

## release: two builds, which must have the same bytes; programs and bill of materials in build/release/*.tar.gz (minutes)
release:
	@CCACHE_DISABLE=1 $(MAKE) BUILD=$(BUILD)/release/one all
	@CCACHE_DISABLE=1 $(MAKE) BUILD=$(BUILD)/release/two all
	@scripts/release.sh $(BUILD)/release/one $(BUILD)/release/two $(BUILD)/release $(archives)

## slurm: as root, runs under a real Slurm of two nodes on this machine; a killed rank, launchers without PMIx (a minute)
slurm: all
	@scripts/slurm.sh $(BUILD)/meshwright $(BUILD)/slurm

## perfetto: a trace of every kind, opened in Perfetto's own page by Chromium; pictures stay in build/perfetto
perfetto: all
	@scripts/perfetto.sh $(BUILD)/meshwright $(BUILD)/perfetto

# Meshwright's build. `make help` lists the targets; V=1 shows whole commands; CC, CFLAGS and LDFLAGS can be set. Every
# room is a folder of sources; new files in it are built without a change here.

BUILD   ?= build
PREFIX  ?= /usr/local
OBJCOPY ?= objcopy
DESTDIR ?=
CFLAGS  ?= -O2
LDFLAGS ?=

rooms    := base topo model model/gin model/import sim/partition sim/compile sim/network sim/pipeline sim/machine sim/plan sim/cost sim/program sim/predict tuner exec plots reports serve commands
packages := libcjson libpcre2-8 gsl yaml-0.1
loaded   := cairo cairo-pdf cairo-png libmicrohttpd # when the first picture is drawn, a page served: their headers alone are asked for here

# Contracted multiply-adds would make results differ between machines, so they are off whatever CFLAGS says.
language := -std=c11 -D_POSIX_C_SOURCE=200809L -ffp-contract=off
warnings := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-missing-field-initializers

MAKEFLAGS += --no-print-directory
comma := ,

# Headers of libraries are system headers (-isystem), so that the warnings are about our own code.
found_links   := $(shell pkg-config --libs $(packages) 2>/dev/null)
include_paths := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags-only-I $(packages) $(loaded) 2>/dev/null))
libraries     := $(found_links) -ldl -lm
# Static linking saves 0.6 of 1.4 ms at each start: GSL and PCRE2 with their dependencies, if their archives are
# installed (Debian's packages have them).
archives      := $(foreach name,pcre2-8 gsl gslcblas,$(filter /%,$(shell $(CC) -print-file-name=lib$(name).a)))
linked        := $(if $(filter 3,$(words $(archives))),-lcjson -lyaml $(archives) -lz -ldl -lm,$(libraries))
found_loaded  := $(shell pkg-config --libs $(loaded) 2>/dev/null)
found_all      = $(if $(and $(found_links),$(found_loaded)),,$(error pkg-config does not find all of $(packages) $(loaded): make deps installs them))

# Buffer overruns end the program, if the compiler supports it; sanitizers have their own checks.
supported  = $(foreach flag,$(1),$(shell $(CC) -Werror $(flag) -x c -c -o /dev/null /dev/null 2>/dev/null && echo $(flag)))
hardening := $(if $(sanitizers),,$(call supported,-fstack-protector-strong -fcf-protection) -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
hardened_links := $(if $(sanitizers),,-Wl$(comma)-z$(comma)relro -Wl$(comma)-z$(comma)now)

# libmeshwright.so consists of the program's objects, whose calls stay direct.
placed   := -fPIC $(call supported,-fno-semantic-interposition)
compile = $(found_all)$(CC) $(language) $(warnings) $(placed) $(hardening) $(CPPFLAGS) $(CFLAGS) $(optimized) $(sanitizers) -I. -I$(BUILD) $(include_paths) -MMD -MP
link    = $(found_all)$(CC) $(CFLAGS) $(sanitizers) $(hardened_links) $(LDFLAGS) -Wl,--as-needed

# The executor is a program of its own: only it loads these. Its loops are worth more vectorising than -O2 gives.
executor_packages  := openblas zlib
executor_libraries := $(shell pkg-config --libs $(executor_packages) 2>/dev/null)
ifneq ($(executor_libraries),)
executor_libraries += -ldnnl -lgomp
endif
executor_paths     := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags-only-I $(executor_packages) 2>/dev/null))
# Open MPI is linked into it alone: libraries and tests talk to ranks through a struct of functions.
rank_libraries     := $(shell pkg-config --libs ompi-c 2>/dev/null)
rank_paths         := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags-only-I ompi-c 2>/dev/null))
lab_sources        := $(sort $(wildcard lab/*.c))
lab_objects        := $(lab_sources:%.c=$(BUILD)/%.o) $(patsubst %,$(BUILD)/%.o,$(wildcard lab/*.csv))
rank_sources       := exec/rank_main.c exec/comm.c exec/heartbeat.c

sources := $(filter-out $(rank_sources),$(foreach room,$(rooms),$(sort $(wildcard $(room)/*.c))))
data    := $(sort $(wildcard $(foreach room,$(rooms),$(room)/*.csv $(room)/*.json $(room)/*.css $(room)/*.js $(room)/*.py $(room)/*.bash $(room)/*.txt)))
# Tables that are compiled in as C: each becomes a header, as model/functions.csv.h.
tables  := $(patsubst %,topo/%.csv,jax_rings jax_contiguous t5x_default_meshes) \
           $(patsubst %,model/%.csv,functions traits config_keys config_checks gradients axes dimensions dtypes sizes \
           optimizers adafactor_options factor_rules rule_sets modules remat_policies huggingface_families huggingface_unrun zoo_families) \
           $(patsubst %,model/gin/gin_%.csv,fields macros networks parts sizes) model/import/import_marks.csv plots/colours.csv \
           exec/row_functions.csv exec/example_functions.csv sim/compile/passes.csv sim/compile/pass_settings.csv \
           sim/pipeline/pipelines.csv sim/plan/gin_unheld.csv sim/plan/plan_keys.csv \
           $(patsubst %,sim/machine/%.csv,constants gpu_attention gpu_constants gpu_tiles nccl nccl_chunks nccl_limits nccl_trees profile_constants)
headers := $(tables:%=$(BUILD)/%.h)
data    := $(filter-out $(tables),$(data))
objects := $(sources:%.c=$(BUILD)/%.o) $(data:%=$(BUILD)/%.o)
tests   := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/test_*.c)))
fuzzers := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))

quiet := $(if $(V),,@)
say    = $(if $(V),,@echo "  $(1)" &&)

## all: build/meshwright, its executor build/meshwright-rank, and build/meshwright-lab for developers (the default)
all: $(BUILD)/meshwright $(BUILD)/meshwright-rank $(BUILD)/meshwright-lab

## test: build, run every test and golden case, close with one line of counts
test: $(BUILD)/meshwright $(BUILD)/meshwright-rank $(BUILD)/meshwright-lab $(tests) $(fuzzers)
	@scripts/test.sh $(BUILD)/meshwright pages golden python $(filter-out $(quick_tests),$(tests)) documents library pictures $(quick_tests) $(fuzzers)

# The tests that take seconds each; `check` leaves them to `test`.
slow_tests  := tuner stages stage_search exec exchange ranks hosts commands pages properties search_properties sessions
quick_tests := $(filter-out $(slow_tests:%=$(BUILD)/tests/test_%),$(tests))

## check: before a commit, in 20 seconds once built: the quick tests, the layers and one sweep
check: $(BUILD)/meshwright $(quick_tests) layers
	@printf '%s\n' $(quick_tests) | xargs -P 2 -I{} sh -c '{} >{}.log 2>&1 || { cat {}.log; exit 255; }'
	@$(BUILD)/meshwright sweep examples/tpu_v4_tuning.csv --out $(BUILD)/check.csv

## aot-env: a Python environment under build/ that holds the TPU compiler (jax[tpu], 600 MB), for verify
aot-env:
	@python3 -m venv $(BUILD)/aot-env && $(BUILD)/aot-env/bin/pip install --quiet 'jax[tpu]'

## test-aot: predictions against the real TPU compiler, in that environment (minutes)
test-aot: $(BUILD)/meshwright
	@scripts/test_aot.sh $(BUILD)/meshwright $(BUILD)/aot-env/bin/python

## demo: install missing packages, build, predict the example table and draw predicted against measured
demo:
	@scripts/deps.sh
	@$(MAKE) all
	@scripts/demo.sh $(BUILD)/meshwright $(BUILD)/demo

## tour: tune a small model for this machine, run the best and the second, calibrate, tune again
tour: $(BUILD)/meshwright $(BUILD)/meshwright-rank
	@scripts/tour.sh $(BUILD)/meshwright $(BUILD)/tour

## asan: the same tests under the address and undefined-behaviour sanitizers, built in build/asan
asan:
	@$(MAKE) BUILD=build/asan CFLAGS="-O1 -g -fno-omit-frame-pointer" \
	    sanitizers="-fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all" test

## tsan: collectives that overlap with computation, and two sessions, under the thread sanitizer, built in build/tsan
tsan:
	@$(MAKE) BUILD=build/tsan CFLAGS="-O1 -g -fno-omit-frame-pointer" sanitizers="-fsanitize=thread" \
	    build/tsan/tests/test_exchange build/tsan/tests/test_sessions
	@TSAN_OPTIONS=halt_on_error=1 build/tsan/tests/test_exchange 'collectives_on_their_way*'
	@TSAN_OPTIONS=halt_on_error=1 build/tsan/tests/test_sessions

## search-properties: properties of every search space, on 20,000 random plans and subspaces, and 800 searches (an hour)
search-properties: $(BUILD)/tests/test_search_properties
	@SEARCH_SAMPLES=20000 $(BUILD)/tests/test_search_properties

## properties: properties of every prediction, on 20,000 random plans (a minute); PROPERTY_SEED draws others
properties: $(BUILD)/tests/test_properties
	@PROPERTY_SAMPLES=20000 $(BUILD)/tests/test_properties

## fuzz: each reader of input against libFuzzer (clang) or the seeded mutator of the tests, FUZZ_SECONDS (60) each
fuzz:
	@scripts/fuzz.sh build/fuzz $(fuzzers:$(BUILD)/%=build/fuzz/%)

## layers: check mechanically the order of the rooms, the doors to libraries and the prefixes
layers: $(objects)
	@scripts/layers.sh $(BUILD)

## lint: clang-format changes nothing, lines end at column 120, .c files begin with their purpose, mutants find their texts
lint:
	@scripts/lint.sh

## bench: start-up time of a prediction, rows per second of a sweep, tokens per second of the executor
bench: $(BUILD)/meshwright $(BUILD)/tests/bench_exec
	@scripts/bench.sh $(BUILD)/meshwright
	@$(BUILD)/tests/bench_exec

## golden-update: rewrite expected output of golden cases, README.md and docs/*.md (read the difference before you keep it)
golden-update: $(BUILD)/meshwright $(BUILD)/meshwright-rank $(BUILD)/meshwright-lab
	@scripts/golden.sh $(BUILD)/meshwright --update
	@scripts/readme.sh $(BUILD)/meshwright --update >/dev/null || true
	@scripts/readme.sh $(BUILD)/meshwright
	@scripts/pictures.sh $(BUILD)/meshwright docs
	@python3 scripts/reference.py $(BUILD)/meshwright
	@python3 scripts/evidence.py $(BUILD)/meshwright

## differs-update: remove cases that now agree from the list of differences from XLA; never adds any
differs-update: $(BUILD)/tests/test_partition
	@$(BUILD)/tests/test_partition --update

## pictures: the pictures of the README, as the commands draw them
pictures: all
	@scripts/pictures.sh $(BUILD)/meshwright docs
	-@python3 scripts/page_picture.py $(BUILD)/meshwright docs/live.png

## pages: a page of every kind of answer, opened by Chromium in twelve windows; pages and pictures stay in build/pages
pages: all
	@scripts/pages.sh $(BUILD)/meshwright $(BUILD)/pages

## confidence: from tests/data/measured, how far predictions are off by software and platform (sim/predict/confidence.csv)
confidence: all
	@python3 scripts/confidence.py $(BUILD)/meshwright
	@$(MAKE) all
	@python3 scripts/confidence.py $(BUILD)/meshwright --check

## deps: install the Debian packages that are missing
deps:
	@scripts/deps.sh

## install: put programs, man page, completion, library, header and pkg-config file under $(DESTDIR)$(PREFIX)
install: $(BUILD)/meshwright $(BUILD)/meshwright-rank $(BUILD)/library/libmeshwright.a $(BUILD)/library/libmeshwright.so.1
	@scripts/install.sh $(BUILD)/meshwright "$(DESTDIR)$(PREFIX)"
	@scripts/install_library.sh $(BUILD)/library "$(DESTDIR)$(PREFIX)" "$(PREFIX)" "$(packages)"

## uninstall: remove the files of `make install` from $(DESTDIR)$(PREFIX)
uninstall:
	@scripts/uninstall.sh "$(DESTDIR)$(PREFIX)"

## clean: remove everything that was built
clean:
	rm -rf build

## help: this list
help:
	@sed -n 's/^## \([a-z-]*\): /\1\t/p' Makefile lab.mk | expand -t 16

$(BUILD)/meshwright: $(BUILD)/meshwright.o $(BUILD)/libmeshwright.a
	$(call say,link $@)$(link) -o $@ $^ $(linked)

# A wheel's programs find their libraries, and these theirs, in their own folder.
beside := -s -Wl,--disable-new-dtags,-rpath,'$$ORIGIN'
$(BUILD)/wheel/meshwright: $(BUILD)/meshwright.o $(BUILD)/libmeshwright.a
	@mkdir -p $(@D)
	$(call say,link $@)$(link) $(beside) -o $@ $^ $(linked)

$(BUILD)/wheel/meshwright-rank: $(rank_sources:%.c=$(BUILD)/%.o) $(BUILD)/libmeshwright.a
	@mkdir -p $(@D)
	$(call say,link $@)$(link) $(beside) -o $@ $^ $(executor_libraries) $(rank_libraries) $(libraries)

# Its table of commands stands before the library's.
$(BUILD)/meshwright-lab: $(BUILD)/meshwright.o $(lab_objects) $(BUILD)/libmeshwright.a
	$(call say,link $@)$(link) -o $@ $^ $(linked)

$(BUILD)/meshwright-rank: $(rank_sources:%.c=$(BUILD)/%.o) $(BUILD)/libmeshwright.a
	$(if $(and $(executor_libraries),$(rank_libraries)),,$(error pkg-config does not find all of $(executor_packages) ompi-c: make deps installs them))
	$(call say,link $@)$(link) -o $@ $^ $(executor_libraries) $(rank_libraries) $(libraries)

# Nothing reads floating-point exceptions or errno. Without these flags the compiler must keep them, and neither turns
# branches into selects nor vectorises loops with a root (GELU took 16 ns per element, now 2). No value changes.
$(BUILD)/exec/%.o: optimized := -O3 -fno-trapping-math -fno-math-errno
$(BUILD)/exec/%.o: include_paths += $(executor_paths)
$(BUILD)/exec/comm.o: include_paths += $(rank_paths)

$(BUILD)/tests/test_sessions: $(BUILD)/library/library.o
$(BUILD)/tests/test_cycles $(BUILD)/tests/test_partition $(BUILD)/tests/test_plots $(BUILD)/tests/test_sharded: $(filter-out $(BUILD)/lab/lab_table.o,$(lab_objects))
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/libmeshwright.a
	$(call say,link $@)$(link) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(executor_libraries) $(libraries) -lcmocka

# Without fuzz_driver the target is libFuzzer's, which has a main of its own (scripts/fuzz.sh).
fuzz_driver ?= $(BUILD)/tests/fuzz/driver.o

$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(fuzz_driver) $(BUILD)/libmeshwright.a
	$(call say,link $@)$(link) -o $@ $^ $(libraries) -lz

# Rebuilt each time, so that no object of a removed source stays in it.
$(BUILD)/libmeshwright.a: $(objects)
	$(quiet)rm -f $@ && $(AR) rcs $@ $^

# The static library: one object with only the public names visible.
$(BUILD)/library/libmeshwright.a: $(BUILD)/library/library.o $(BUILD)/libmeshwright.a
	$(call say,link $@)$(LD) -r -o $(BUILD)/library/whole.o $^ && \
	    $(OBJCOPY) --wildcard --keep-global-symbol='meshwright_*' --keep-global-symbol='mw_*' $(BUILD)/library/whole.o && rm -f $@ && $(AR) rcs $@ $(BUILD)/library/whole.o

# The same as a shared library, for languages that load one; its name changes with MW_ABI_VERSION.
$(BUILD)/library/libmeshwright.so.1: $(BUILD)/library/libmeshwright.a
	$(call say,link $@)$(link) -shared -Wl,-soname,$(@F) -o $@ -Wl,--whole-archive $< -Wl,--no-whole-archive $(libraries)

$(BUILD)/%.o: %.c Makefile | $(headers)
	@mkdir -p $(@D)
	$(call say,compile $<)$(compile) -c -o $@ $<

# A data file becomes a constant, embedded_ROOM_FILE_ext: one binary is all that a user copies.
$(BUILD)/%.csv.h: %.csv scripts/embed.sh
	@mkdir -p $(@D)
	$(call say,embed $<)scripts/embed.sh $< >$@
$(BUILD)/%.csv.o: %.csv scripts/embed.sh | $(headers)
	@mkdir -p $(@D)
	$(call say,embed $<)scripts/embed.sh $< >$(@:.o=.c) && $(CC) $(language) $(warnings) -Werror $(sanitizers) -I. -I$(BUILD) -MMD -MP -c -o $@ $(@:.o=.c)
define embedded_text
$(BUILD)/%.$(1).o: %.$(1) scripts/embed.sh
	@mkdir -p $$(@D)
	$$(call say,embed $$<)scripts/embed.sh $$< | $$(CC) -c -x assembler -o $$@ -
endef
$(foreach ending,py json css js bash txt,$(eval $(call embedded_text,$(ending))))

include lab.mk

.PHONY: all check test mutants search-properties properties confidence perfetto aot-env test-aot demo tour asan tsan fuzz layers lint bench bench-torch lab torus soak slurm golden-update pages pictures differs-update deps failures own-parsers attacks questions release install uninstall clean help
.SECONDARY:
-include $(sources:%.c=$(BUILD)/%.d) $(filter %.csv.d,$(data:%=$(BUILD)/%.d)) $(tests:%=%.d) $(BUILD)/tests/bench_exec.d $(fuzzers:%=%.d) $(BUILD)/tests/fuzz/driver.d $(BUILD)/meshwright.d $(BUILD)/library/library.d $(rank_sources:%.c=$(BUILD)/%.d) $(lab_sources:%.c=$(BUILD)/%.d)

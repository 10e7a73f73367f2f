# CAST: training on Long Range Arena. `make help` prints the lines marked with #? and ##.
#? make [target] [MODE=release|debug|asan|tsan|double] [CC=gcc|clang] [MARCH=native] [MPI=1]
#?   MODE    what to build: release is -O3; asan and tsan look for bugs; double is for gradient checks
#?   MARCH   the processor to build for; native is this one, x86-64-v3 any with AVX2
#?   FUZZ=npy FUZZ_SECONDS=300   what `make fuzz` runs (all of tests/fuzz), and for how long each
#?   XSMM=   builds without libxsmm where it is installed; CI=1 makes warnings errors; V=1 shows commands
#?
MODE   ?= release
MARCH  ?= native
PREFIX ?= /usr/local

MODES := release debug asan asan-double tsan double fuzz cover
ifeq ($(filter $(MODE),$(MODES)),)
$(error MODE=$(MODE): one of $(MODES))
endif
ifneq ($(filter default undefined,$(origin CC)),)
CC := $(if $(filter tsan fuzz cover,$(MODE)),clang,gcc)
endif

OUT      := build/$(MODE)
PROGRAMS := $(patsubst src/cmd/%.c,%,$(wildcard src/cmd/*.c))
SOURCES  := $(filter-out src/cmd/%,$(wildcard src/*/*.c))
OBJECTS  := $(SOURCES:src/%.c=$(OUT)/obj/%.o)

# Tests. What needs double to mean anything (gradients, golden vectors) is built in double only, and `make test`
# in release builds and runs it from there.
EXACT_SRC := $(wildcard tests/*/grad_*.c tests/*/test_golden.c)
FUZZ_SRC  := $(wildcard tests/fuzz/fuzz_*.c)
PLAIN_SRC := $(filter-out $(EXACT_SRC),$(wildcard tests/*/test_*.c)) $(FUZZ_SRC)
CANARY    := tests/core/race_canary.c
TEST_SRC  := $(PLAIN_SRC) $(if $(filter %double,$(MODE)),$(EXACT_SRC)) $(if $(filter tsan,$(MODE)),$(CANARY))
TESTS     := $(TEST_SRC:tests/%.c=$(OUT)/tests/%)
FUZZERS   := $(FUZZ_SRC:tests/%.c=$(OUT)/tests/%)
# Those of operations, too, unless a mechanism is named.
GRADS     := $(patsubst tests/%.c,build/double/tests/%,$(wildcard $(if $(MECHANISM),\
             tests/attention/grad_*.c tests/model/grad_*.c,tests/*/grad_*.c)))
EXACT     := $(EXACT_SRC:tests/%.c=build/double/tests/%)
# What takes minutes takes hours there.
SANE_EXACT := $(patsubst tests/%.c,build/asan-double/tests/%,$(wildcard tests/ops/grad_*.c tests/model/test_golden.c))
# In float its oracles adopt a mechanism's choice among near ones; in double they choose themselves.
EXACT     += build/double/tests/attention/test_oracle
SCRIPTS   := $(wildcard tests/*/*.sh)
FAULTS    := $(patsubst tests/%.c,$(OUT)/tests/%.so,$(wildcard tests/faults/*.c))
HELPERS   := $(patsubst tests/%.c,$(OUT)/obj/tests/%.o,$(wildcard tests/*.c))

# The processor, and what the compiler takes for granted about it: __AVX2__ and so on, as "avx2 ..."; and the model that
# it tunes for (__tune_znver3__), by which it takes other multiply-adds.
X86      := $(filter x86_64-% i386-% i486-% i586-% i686-%,$(shell $(CC) -dumpmachine 2>/dev/null))
COMPILER := $(shell $(CC) --version 2>/dev/null | head -n 1)
ARCH     := $(if $(X86),-march=$(MARCH),-mcpu=$(MARCH))
MACROS   := $(shell $(CC) $(ARCH) -dM -E - </dev/null 2>/dev/null | awk '{ print $$2 }')
FEATURES := $(shell echo $(patsubst __%__,%,$(filter __SSE% __SSSE% __AVX% __FMA% __BMI% __POPCNT% __F16C% \
              __LZCNT% __XOP% __GFNI% __VAES% __VPCLMUL% __tune_%,$(MACROS))) | tr A-Z_ a-z.)

# Flags. Never -ffast-math. The link asks for cpu_describe, so that core/cpu.o, which
# refuses processors that lack what the build assumes, is in every program. -fno-tree-loop-distribute-patterns: gcc
# would call memcpy for each short row. -Wno-psabi: vectors of 64 bytes are only passed between inline functions.
# -Wno-missing-field-initializers: the rows of a table leave out what they do not have. -Wno-unused-parameter: functions
# of a table and jobs need not use all that they are given. -Wno-enum-float-conversion: constants are enums (clang).
WARN     := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes -Wmissing-prototypes \
            -Wwrite-strings -Wvla -Wformat=2 -Wno-psabi -Wno-missing-field-initializers -Wno-unused-parameter \
            -Wno-enum-float-conversion \
            $(if $(CI)$(WERROR),-Werror) \
            $(if $(filter __clang__,$(MACROS)),-Wno-pass-failed)
DEFINES  := -Isrc -D_POSIX_C_SOURCE=200809L
# Files come from anywhere: a write beyond a text on the stack ends the program, and tables of functions are read-only
# (-z now, below). Neither _FORTIFY_SOURCE nor -fstack-protector-strong, which change the code of the hot loops.
HARDEN   := -fstack-protector
SANE     := -g -O1 -fno-omit-frame-pointer
MODE_release := -O3 -g1 $(HARDEN)
MODE_double  := -O3 -g1 $(HARDEN) -DREAL_DOUBLE
MODE_debug   := -Og -g
MODE_asan    := $(SANE) -DSANITIZED -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all
MODE_asan-double := $(MODE_asan) -DREAL_DOUBLE
MODE_tsan    := $(SANE) -DSANITIZED -fsanitize=thread
MODE_fuzz    := $(MODE_asan) -fsanitize=fuzzer-no-link
MODE_cover   := $(SANE) -fprofile-instr-generate -fcoverage-mapping
CODEGEN  := -std=c11 $(MODE_$(MODE)) $(ARCH) -ffp-contract=fast -fno-math-errno -fopenmp -fopenmp-simd \
            $(if $(filter __clang__,$(MACROS)),,-fno-tree-loop-distribute-patterns)
FLAGS    := $(CODEGEN) $(WARN) -MMD -MP
LINK      = $(CC)
LIBS     := -Wl,-z,relro,-z,now -Wl,-u,cpu_describe -lopenblas -lcjson -lpng -lz -lm -ldl

# libxsmm is used where it is installed; `make XSMM=` builds without it.
XSMM := $(wildcard /usr/include/libxsmm.h /usr/local/include/libxsmm.h)
ifneq ($(XSMM),)
DEFINES  += -DHAVE_XSMM
LIBS     := -lxsmm -lxsmmnoblas $(LIBS)
endif

# `make MPI=1`: cast_train and cast_bench may be started by mpirun, Open MPI's or MPICH's; MPICC=mpicc.mpich chooses
# between them.
override MPI := $(filter-out 0 no,$(MPI))
ifneq ($(MPI),)
DEFINES  += -DHAVE_MPI
export OMPI_CC := $(CC)
export MPICH_CC := $(CC)
MPICC    ?= mpicc
LINK     := $(MPICC)
MPI_IS   := $(shell $(MPICC) -show 2>/dev/null)
# Private, or $(OUT)/flags would have it too; override, for a CC on the command line.
$(OUT)/obj/core/ranks.o: private override CC := $(MPICC)
endif

.PHONY: all tests test gradcheck results bench lint format mutants coverage quickstart deps install uninstall clean help FORCE
.SECONDARY:
.DELETE_ON_ERROR:

all: $(PROGRAMS:%=$(OUT)/%) ## the programs; build/release leaves them here
ifeq ($(OUT),build/release)
all: $(PROGRAMS)
$(PROGRAMS): %: $(OUT)/%
	@install $< $@
endif

say = $(if $(V),,@echo '  $(1)';)

# Which commit programs are of: linked into them alone, before the library's, which knows none, so that a commit builds
# nothing else anew.
COMMIT := $(if $(wildcard .git),$(shell git -c safe.directory='$(CURDIR)' describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null))
$(OUT)/obj/commit.o: src/core/commit.c $(OUT)/flags $(OUT)/commit | $(OUT)/deps-build
	@mkdir -p $(@D)
	$(call say,$(CC) $< $(COMMIT)) $(CC) $(DEFINES) $(CPPFLAGS) $(FLAGS) $(CFLAGS) -DCAST_COMMIT='"$(COMMIT)"' -c $< -o $@

# Changing the compiler or its version, flags or processor rebuilds; so does a file that is gone.
$(OUT)/commit: export LINE = $(COMMIT)
$(OUT)/flags: export LINE = $(CC) $(COMPILER) $(LINK) $(MPI_IS) $(DEFINES) $(CPPFLAGS) $(FLAGS) $(CFLAGS) $(LDFLAGS) $(LIBS) $(LDLIBS) $(FEATURES)
$(OUT)/sources: export LINE = $(SOURCES) $(HELPERS)
$(OUT)/flags $(OUT)/sources $(OUT)/commit: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' "$$LINE" | cmp -s - $@ || printf '%s\n' "$$LINE" >$@
# What is missing is told once, with its Debian package, rather than by the compiler.
$(OUT)/deps-%: $(OUT)/flags
	@CC='$(CC)' MODE=$(MODE) MPI='$(MPI)' scripts/deps.sh check $* && touch $@

$(OUT)/libcast.a: $(OBJECTS) $(OUT)/sources
	@rm -f $@
	$(call say,ar $@) ar rcs $@ $(OBJECTS)
$(PROGRAMS:%=$(OUT)/%): $(OUT)/%: $(OUT)/obj/cmd/%.o $(OUT)/obj/commit.o $(OUT)/libcast.a
	$(call say,link $@) $(LINK) $(FLAGS) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(LIBS) $(LDLIBS)
$(OUT)/tests/%: $(OUT)/obj/tests/%.o $(HELPERS) $(OUT)/libcast.a
	@mkdir -p $(@D)
	$(call say,link $@) $(LINK) $(FLAGS) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(LIBS) $(LDLIBS) -lcmocka

# What a test preloads into programs; sanitizers come before it.
$(FAULTS): $(OUT)/tests/%.so: tests/%.c $(OUT)/flags | $(OUT)/deps-test
	@mkdir -p $(@D)
	$(call say,link $@) $(CC) $(CODEGEN) $(WARN) -fPIC -shared $< -o $@ -ldl

# A fuzz target is run by libFuzzer in MODE=fuzz; elsewhere it is a test that replays a corpus.
ifeq ($(MODE),fuzz)
$(FUZZERS): private LIBS += -fsanitize=fuzzer -Wl,--wrap=_Exit
$(FUZZERS): $(OUT)/obj/tests/fuzz/trap.o
else
$(FUZZERS): $(OUT)/obj/tests/fuzz/replay.o
endif

$(OUT)/obj/tests/%.o: tests/%.c $(OUT)/flags | $(OUT)/deps-test
	@mkdir -p $(@D)
	$(call say,$(CC) $<) $(CC) $(DEFINES) $(CPPFLAGS) -Itests $(FLAGS) $(CFLAGS) -c $< -o $@
$(OUT)/obj/%.o: src/%.c $(OUT)/flags | $(OUT)/deps-build
	@mkdir -p $(@D)
	$(call say,$(CC) $<) $(CC) $(DEFINES) $(CPPFLAGS) $(FLAGS) $(CFLAGS) $(FILE_FLAGS) -c $< -o $@

# The program has copies of these.
$(OUT)/obj/export/reader.o: src/export/model_numpy.py src/export/model_torch.py
# Runs before it is known what the processor can do, so it is built for the least of them.
$(OUT)/obj/core/cpu.o: FILE_FLAGS = $(if $(X86),-march=x86-64) -DCPU_FEATURES='"$(FEATURES)"' \
                                    -DCPU_MARCH='"$(MARCH)"' -DCPU_FLAGS='"$(CODEGEN) $(CFLAGS)"'

tests: all $(TESTS) $(if $(filter release,$(MODE)),$(FAULTS)) ## builds the tests of this MODE

# Each step is a make of its own, because deps may change what there is to find; on all cores unless -j says else (nproc
# would heed OpenMP's variables).
export CC MODE MPI CPPFLAGS CFLAGS LDFLAGS LDLIBS
SUBMAKE = $(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc))
test: ## installs what tests need, builds and runs them all
	@scripts/deps.sh ensure test
	+@$(SUBMAKE) tests
ifeq ($(MODE),release)
	+@$(SUBMAKE) MODE=double all $(EXACT)
	@scripts/test.sh release $(TESTS) $(EXACT) $(SCRIPTS)
else ifeq ($(MODE),asan)
	+@$(SUBMAKE) MODE=asan-double all $(SANE_EXACT)
	@scripts/test.sh asan $(TESTS) $(SANE_EXACT) $(SCRIPTS)
else
	@scripts/test.sh $(MODE) $(TESTS) $(SCRIPTS)
endif

# Beside other goals each of these would build what they build, and clean would remove it.
ifneq ($(and $(filter test results clean gradcheck fuzz coverage mutants quickstart,$(MAKECMDGOALS)),$(word 2,$(MAKECMDGOALS))),)
.NOTPARALLEL:
endif

gradcheck: ## every backward against central differences in double
	@scripts/deps.sh check test
	+@$(SUBMAKE) MODE=double $(GRADS)
	@scripts/test.sh double $(GRADS)

FUZZ_SECONDS ?= 300
.PHONY: fuzz fuzzers
fuzzers: $(FUZZERS)
fuzz: ## libFuzzer (clang) on what reads files, and the lines it reached
	+@$(SUBMAKE) MODE=fuzz CC=clang fuzzers
	+@$(SUBMAKE) MODE=cover CC=clang fuzzers
	@scripts/fuzz.sh $(FUZZ_SECONDS) $(or $(FUZZ),$(FUZZ_SRC:tests/fuzz/fuzz_%.c=%))

UNCOVERED := $(wildcard tests/faults/*.sh) tests/cmd/ranks.sh
coverage: ## clang's count of the lines that the tests reach
	+@$(SUBMAKE) MODE=cover CC=clang tests
	@scripts/coverage.sh $(TESTS:$(OUT)/%=build/cover/%) $(filter-out $(UNCOVERED),$(SCRIPTS))

mutants: ## plants known errors, one at a time: the tests must catch each
	@scripts/deps.sh check test
	@scripts/mutants.sh

results: ## rebuilds the tables and plots of results/, docs/ and the README from committed metrics
	+@$(SUBMAKE) MODE=release all
	@scripts/results.sh

bench: all ## the machine's limits, and the speed of the image config
	$(OUT)/cast_bench configs/image.json

lint: ## formatting, lengths, layers, forbidden calls; gcc and clang with -Werror
	@scripts/deps.sh check lint
	@scripts/lint.sh
	+@$(SUBMAKE) MODE=release WERROR=1 CC=gcc OUT=build/lint-gcc compile
	+@$(SUBMAKE) MODE=release WERROR=1 CC=clang OUT=build/lint-clang compile
	@echo "lint: no finding"
.PHONY: compile
compile: $(OBJECTS) $(PROGRAMS:%=$(OUT)/obj/cmd/%.o) \
         $(patsubst tests/%.c,$(OUT)/obj/tests/%.o,$(wildcard tests/*.c tests/*/*.c))

format: ## formats all C files in place
	@scripts/deps.sh check lint
	clang-format -i $(wildcard src/*/*.[ch] tests/*.[ch] tests/*/*.[ch])

deps: FOR ?= test
deps: ## installs the Debian packages for building and testing; FOR=all also for lint and tsan
	@scripts/deps.sh install $(FOR)

quickstart: ## installs, builds, makes a small ListOps set and trains on it
	@scripts/quickstart.sh

SHARE := $(DESTDIR)$(PREFIX)/share
MAN   := $(SHARE)/man/man1
BASH  := $(SHARE)/bash-completion/completions
ZSH   := $(SHARE)/zsh/site-functions
DOCS  := $(SHARE)/doc/cast
# What programs say of themselves; by mv, since those that root made are not to be written over.
PAGES := $(PROGRAMS:%=$(OUT)/%.1)
$(PAGES): $(OUT)/%.1: $(OUT)/%
	@$< --help man >$@.part && mv $@.part $@
$(OUT)/config.schema.json: $(OUT)/cast_train
	@$< --schema >$@.part && mv $@.part $@
install: all $(PAGES) $(OUT)/config.schema.json ## programs, configs, manual, completion, documents under DESTDIR/PREFIX (/usr/local)
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(SHARE)/cast/configs" "$(DOCS)/docs" "$(DOCS)/data" "$(DOCS)/results/weights" \
		"$(MAN)" "$(BASH)" "$(ZSH)"
	install $(PROGRAMS:%=$(OUT)/%) "$(DESTDIR)$(PREFIX)/bin"
	install -m 644 configs/*.json "$(SHARE)/cast/configs"
	install -m 644 README.md CHANGELOG.md CONTRIBUTING.md LICENSE CITATION.cff "$(DOCS)"
	install -m 644 docs/*.md "$(DOCS)/docs"
	install -m 644 data/README.md "$(DOCS)/data"
	install -m 644 results/*.md results/*.svg results/*.png "$(DOCS)/results"
	install -m 644 results/weights/* "$(DOCS)/results/weights"
	@# Links to scripts, metrics and runs under way, which stay in the sources, become their words; some go over two lines.
	find "$(DOCS)" -name '*.md' -exec sed -z -E -i 's#\[([^][]*)\]\((\.\./)*(scripts|metrics|begun)/[^)]*\)#\1#g' {} +
	install -m 644 $(PAGES) "$(MAN)"
	install -m 644 $(OUT)/config.schema.json "$(SHARE)/cast"
	install -m 644 scripts/completion.zsh "$(ZSH)/_cast"
	for p in $(PROGRAMS); do install -m 644 scripts/completion.bash "$(BASH)/$$p" || exit 1; done
uninstall: ## removes them
	for p in $(PROGRAMS); do rm -f "$(DESTDIR)$(PREFIX)/bin/$$p" "$(MAN)/$$p.1" "$(BASH)/$$p" || exit 1; done
	rm -f "$(ZSH)/_cast"
	rm -rf "$(SHARE)/cast" "$(DOCS)"

clean: ## removes what was built
	rm -rf build $(PROGRAMS)

help: ## this list
	@sed -n 's/^#? \{0,1\}//p' Makefile
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile
	@echo "Programs: $(PROGRAMS); each explains itself with --help."

-include $(shell find $(OUT) -name '*.d' 2>/dev/null)

# SPDX-License-Identifier: Apache-2.0
# One non-recursive file; every output is under build/. ./build.sh installs what this needs, puts the
# third-party libraries into build/deps and calls it. Sources are found by sorted wildcards: a new
# file needs no edit here.

MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:

# Another machine than this one: ARCH=aarch64, with that compiler (./build.sh sees to it).
HERE := $(shell uname -m)
ARCH ?= $(HERE)
CROSS := $(if $(filter $(HERE),$(ARCH)),,$(ARCH)-linux-gnu-)
ifeq ($(origin CC),default)
CC := $(CROSS)gcc
endif
AR := $(CROSS)ar
BPF_CLANG ?= clang-19
LLVM_STRIP ?= llvm-strip-19
CLANG_FORMAT ?= clang-format-19
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool /sbin/bpftool) bpftool)
STRIP ?= $(CROSS)strip
DEPS ?= build/deps
B := build
# V=1 shows the whole commands.
ifeq ($(V),1)
say =
Q :=
else
say = @printf '  %-6s %s\n' '$(1)' '$@'
Q := @
endif

export LC_ALL := C
export TZ := UTC
export SOURCE_DATE_EPOCH ?= 0

VERSION := $(shell cat VERSION)
# A build from a tree without git says only its version.
BUILD_ID ?= $(shell git describe --always --dirty --abbrev=12 --exclude '*' 2>/dev/null)

# ---- what there is ---------------------------------------------------------------------------

ROOMS := core core/base modules cli updater lake tune sweep
SRCS := $(sort $(foreach d,$(ROOMS),$(wildcard $(d)/*.c)))
MAIN := $(filter core/main.c,$(SRCS))
BPF_SRCS := $(sort $(wildcard bpf/*.bpf.c))
SKELS := $(BPF_SRCS:bpf/%.bpf.c=$(B)/gen/%.skel.h)
EMBED := rules demo ca service root
GEN_C := $(EMBED:%=$(B)/gen/%_embedded.c)
RULE_FILES := $(sort $(wildcard rules/*.yaml))
SERVICE_FILES := $(sort $(wildcard installer/service/*))
# What a release is built with (release/build): the first root, which the binary then trusts without being told, and
# where its updates are. Any other build has neither.
ROOT_JSON ?=
UPDATE_URL ?=
DEMO_FILES := $(sort $(filter-out %/,$(wildcard demo/*)))

OBJS := $(SRCS:%.c=$(B)/obj/%.o) $(GEN_C:$(B)/gen/%.c=$(B)/obj/gen/%.o)
LIB_OBJS := $(filter-out $(B)/obj/core/main.o,$(OBJS))

# ---- flags -----------------------------------------------------------------------------------

BPF_ARCH := $(if $(filter x86_64,$(ARCH)),x86,$(if $(filter aarch64,$(ARCH)),arm64,$(ARCH)))
ROOT := $(CURDIR)

WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 \
	-Wpointer-arith -Wundef -Wwrite-strings -Wno-unused-parameter
# clang minds a va_list format that gcc knows to be checked by the caller's attribute.
CLANG_WARN := -Wno-format-nonliteral -Wno-gnu-variable-sized-type-not-at-end
WARN += $(if $(findstring clang,$(CC)),$(CLANG_WARN))
# Paths of the machine are cut out of every object, so that two folders give the same bytes.
PREFIX_MAP := -ffile-prefix-map=$(ROOT)/= -ffile-prefix-map=$(ROOT)=.
BASE := -std=gnu11 -g $(WARN) $(PREFIX_MAP) -fno-common -fstack-protector-strong \
	-D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -I. -isystem $(B)/gen
CC_INC := $(shell $(CC) -print-file-name=include)
# musl has no fortified headers, so _FORTIFY_SOURCE would do nothing here.
CFLAGS_MUSL := $(BASE) -O2 -fPIE -ffunction-sections -fdata-sections -nostdinc \
	-isystem $(DEPS)/musl/include -isystem $(CC_INC) -idirafter $(DEPS)/uapi
CFLAGS_ASAN := $(BASE) -O1 -fno-omit-frame-pointer -fsanitize=address,undefined \
	-fno-sanitize-recover=undefined -DTRACER_SANITIZE -isystem $(DEPS)/host/include
CFLAGS_BPF := -target bpf -mcpu=v3 -O2 -g -std=gnu11 -Wall -Wextra -Werror -Wno-unused-parameter \
	-Wno-missing-declarations $(PREFIX_MAP) -D__TARGET_ARCH_$(BPF_ARCH) -I. \
	-nostdlibinc -isystem $(DEPS)/bpf/include -idirafter $(DEPS)/uapi
LIBS := bpf elf yaml yyjson llhttp deflate curl mbedtls sodium sqlite3 z

gcc_file = $(shell $(CC) -print-file-name=$(1))
M := $(DEPS)/musl/lib
# musl-gcc -static-pie links a dynamic PIE without a word: the start files are given here instead.
LINK_MUSL = $(CC) -nostdlib -nostartfiles -static-pie -Wl,-z,text \
	-Wl,-z,relro,-z,now -Wl,-z,noexecstack -Wl,--gc-sections -Wl,--build-id=sha1 \
	-Wl,--hash-style=gnu $(M)/rcrt1.o $(M)/crti.o $(call gcc_file,crtbeginS.o) $(1) \
	-Wl,--start-group $(LIBS:%=$(M)/lib%.a) $(M)/libc.a $(call gcc_file,libgcc.a) \
	$(call gcc_file,libgcc_eh.a) -Wl,--end-group $(call gcc_file,crtendS.o) $(M)/crtn.o
LINK_HOST = $(CC) -fsanitize=address,undefined $(1) -Wl,--start-group \
	$(LIBS:%=$(DEPS)/host/lib/lib%.a) -Wl,--end-group -lpthread -lm -ldl

.PHONY: all
ifeq ($(MAIN),)
all: $(OBJS)
	@echo "make: no core/main.c: objects only"
else
all: $(B)/tracer
endif

# ---- generated -------------------------------------------------------------------------------

$(B)/bpf/%.bpf.o: bpf/%.bpf.c Makefile
	@mkdir -p $(@D)
	$(call say,BPF)
	$(Q)$(BPF_CLANG) $(CFLAGS_BPF) -MD -MP -MT $@ -MF $(@:.o=.d) -c $< -o $(@:.o=.full)
	$(Q)$(LLVM_STRIP) -g -o $@ $(@:.o=.full)

$(B)/gen/%.skel.h: $(B)/bpf/%.bpf.o
	@mkdir -p $(@D)
	$(call say,SKEL)
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf > $@

$(B)/gen/rules_embedded.c: $(RULE_FILES) tools/embed.sh $(B)/gen/rules.list
	$(call say,GEN)
	$(Q)tools/embed.sh rules rules/ $(RULE_FILES) > $@
$(B)/gen/ca_embedded.c: $(DEPS)/share/ca-bundle.pem tools/embed.sh
	$(call say,GEN)
	$(Q)tools/embed.sh ca $(DEPS)/share/ $< > $@
$(B)/gen/demo_embedded.c: $(DEMO_FILES) tools/embed.sh $(B)/gen/demo.list
	$(call say,GEN)
	$(Q)tools/embed.sh demo demo/ $(DEMO_FILES) > $@

$(B)/gen/service_embedded.c: $(SERVICE_FILES) tools/embed.sh $(B)/gen/service.list
	$(call say,GEN)
	$(Q)tools/embed.sh service installer/service/ $(SERVICE_FILES) > $@

$(B)/gen/root_embedded.c: $(ROOT_JSON) tools/embed.sh $(B)/gen/root.list
	$(call say,GEN)
	$(Q)tools/embed.sh root "$(dir $(ROOT_JSON))" $(ROOT_JSON) > $@

# Written only when it changes, so that a removed file or a new commit rebuilds what shows it and no more.
define write_if_changed
@mkdir -p $(@D); printf '%s\n' $(1) > $@.new; \
	if cmp -s $@.new $@; then rm -f $@.new; else mv $@.new $@; fi
endef
.PHONY: FORCE
FORCE:
$(B)/gen/rules.list: FORCE
	$(call write_if_changed,'$(RULE_FILES)')
$(B)/gen/service.list: FORCE
	$(call write_if_changed,'$(SERVICE_FILES)')
$(B)/gen/root.list: FORCE
	$(call write_if_changed,'$(ROOT_JSON)')
$(B)/gen/demo.list: FORCE
	$(call write_if_changed,'$(DEMO_FILES)')
$(B)/gen/version.h: FORCE
	$(call write_if_changed,'#define TRACER_VERSION "$(VERSION)"' '#define TRACER_BUILD "$(BUILD_ID)"' '#define TRACER_UPDATE_URL "$(UPDATE_URL)"')
$(B)/obj/objects.list: FORCE
	$(call write_if_changed,'$(OBJS)')

# ---- the binary ------------------------------------------------------------------------------

# Objects wait for every generated header once; after that their .d files say which one they read.
GEN_H := $(SKELS) $(B)/gen/version.h
$(B)/obj/%.o: %.c Makefile | $(GEN_H)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS_MUSL) -MD -MP -c $< -o $@
$(B)/obj/gen/%.o: $(B)/gen/%.c Makefile | $(GEN_H)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS_MUSL) -MD -MP -c $< -o $@

$(B)/libtracer.a: $(LIB_OBJS) $(B)/obj/objects.list
	@rm -f $@
	$(call say,AR)
	$(Q)$(AR) Drcs $@ $(LIB_OBJS)

$(B)/tracer.debug: $(OBJS) $(B)/obj/objects.list
	$(call say,LINK)
	$(Q)$(call LINK_MUSL,$(OBJS)) -o $@

$(B)/tracer: $(B)/tracer.debug tools/check_binary.sh
	$(call say,STRIP)
	$(Q)$(STRIP) -s -o $@.new $<
	$(Q)tools/check_binary.sh $@.new $<
	$(Q)mv $@.new $@

# ---- the same, under the sanitizers ------------------------------------------------------------

$(B)/asan/obj/%.o: %.c Makefile | $(GEN_H)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS_ASAN) -MD -MP -c $< -o $@
$(B)/asan/obj/gen/%.o: $(B)/gen/%.c Makefile | $(GEN_H)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS_ASAN) -MD -MP -c $< -o $@

ASAN_OBJS := $(LIB_OBJS:$(B)/obj/%=$(B)/asan/obj/%)
$(B)/asan/libtracer.a: $(ASAN_OBJS) $(B)/obj/objects.list
	@rm -f $@
	$(call say,AR)
	$(Q)$(AR) Drcs $@ $(ASAN_OBJS)
$(B)/asan/tracer: $(ASAN_OBJS) $(B)/asan/obj/core/main.o
	$(call say,LINK)
	$(Q)$(call LINK_HOST,$^) -o $@

# A unit test is one program: tests/unit/test_X.c, linked with the objects it uses and cmocka.
UNIT := $(sort $(wildcard tests/unit/test_*.c))
UNIT_BIN := $(UNIT:tests/unit/%.c=$(B)/asan/unit/%)
$(B)/asan/unit/%: tests/unit/%.c $(B)/asan/libtracer.a Makefile
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS_ASAN) -Wno-missing-prototypes -MD -MP -MF $@.d -c $< -o $@.o
	$(Q)$(call LINK_HOST,$@.o $(B)/asan/libtracer.a) -lcmocka -o $@

# A BPF test in C is a static program against musl, so that it also runs in a guest with nothing else in it.
BPF_TESTS := $(sort $(wildcard tests/bpf/test_*.c))
BPF_TEST_BIN := $(BPF_TESTS:tests/bpf/%.c=$(B)/tests/bpf/%)
$(B)/tests/bpf/%: tests/bpf/%.c $(B)/libtracer.a Makefile
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS_MUSL) -Wno-missing-prototypes -MD -MP -MF $@.d -c $< -o $@.o
	$(Q)$(call LINK_MUSL,$@.o $(B)/libtracer.a) -o $@

# The same for a program that a shell test of tests/fault or tests/bench drives.
$(B)/tests/fault/%: tests/fault/%.c $(B)/libtracer.a Makefile
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS_MUSL) -Wno-missing-prototypes -MD -MP -MF $@.d -c $< -o $@.o
	$(Q)$(call LINK_MUSL,$@.o $(B)/libtracer.a) -o $@
$(B)/tests/bench/%: tests/bench/%.c $(B)/libtracer.a Makefile
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS_MUSL) -Wno-missing-prototypes -MD -MP -MF $@.d -c $< -o $@.o
	$(Q)$(call LINK_MUSL,$@.o $(B)/libtracer.a) -o $@

# The whole product with a fault in it: what the trial of an update has to find.
$(B)/tests/installer/%: tests/installer/%.c $(OBJS) $(B)/obj/objects.list Makefile
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS_MUSL) -Wno-missing-prototypes -MD -MP -MF $@.d -c $< -o $@.o
	$(Q)$(call LINK_MUSL,$@.o $(OBJS)) -o $@
	$(Q)$(STRIP) -s $@

.PHONY: unit-bins bpf-bins
unit-bins: $(UNIT_BIN)
bpf-bins: $(BPF_TEST_BIN)

-include $(OBJS:.o=.d) $(ASAN_OBJS:.o=.d) $(B)/asan/obj/core/main.d $(UNIT_BIN:=.d) $(BPF_TEST_BIN:=.d)
-include $(BPF_SRCS:bpf/%.bpf.c=$(B)/bpf/%.bpf.d)

# Helpers of the guest: static programs like the BPF tests.
$(B)/tests/vm/%: tests/vm/%.c $(DEPS)/musl/lib/libc.a Makefile
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS_MUSL) -c $< -o $@.o
	$(Q)$(call LINK_MUSL,$@.o) -o $@

# Fuzz targets: clang's libFuzzer over objects of their own, since coverage needs another compiler.
CFLAGS_FUZZ := $(BASE) $(CLANG_WARN) -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined \
	-DTRACER_SANITIZE -isystem $(DEPS)/host/include
FUZZ := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ_BIN := $(FUZZ:tests/fuzz/%.c=$(B)/fuzz/%)
FUZZ_OBJS := $(LIB_OBJS:$(B)/obj/%=$(B)/fuzz/obj/%)
$(B)/fuzz/obj/gen/%.o: $(B)/gen/%.c Makefile | $(GEN_H)
	@mkdir -p $(@D)
	$(call say,FUZZ)
	$(Q)$(BPF_CLANG) $(CFLAGS_FUZZ) -MD -MP -c $< -o $@
$(B)/fuzz/obj/%.o: %.c Makefile | $(GEN_H)
	@mkdir -p $(@D)
	$(call say,FUZZ)
	$(Q)$(BPF_CLANG) $(CFLAGS_FUZZ) -MD -MP -c $< -o $@
$(B)/fuzz/libtracer.a: $(FUZZ_OBJS) $(B)/obj/objects.list
	@rm -f $@
	$(Q)$(AR) Drcs $@ $(FUZZ_OBJS)
$(B)/fuzz/fuzz_%: tests/fuzz/fuzz_%.c $(B)/fuzz/libtracer.a Makefile
	$(call say,FUZZ)
	$(Q)$(BPF_CLANG) $(CFLAGS_FUZZ) -Wno-missing-prototypes -fsanitize=fuzzer $< $(B)/fuzz/libtracer.a \
		-Wl,--start-group $(LIBS:%=$(DEPS)/host/lib/lib%.a) -Wl,--end-group -lm -o $@
-include $(FUZZ_OBJS:.o=.d)

.PHONY: fuzz-bins
fuzz-bins: $(FUZZ_BIN)

# ---- what a person calls -------------------------------------------------------------------------

.PHONY: test test-long test-root asan fuzz vm bench lint fmt repro rehearsal check clean
test:
	tests/run
test-long:
	tests/run --long
test-root:
	@[ "$$(id -u)" = 0 ] || { echo "make test-root: run it as root" >&2; exit 3; }
	tests/run bpf fault e2e
check:
	tests/run lint unit
asan fuzz vm bench lint repro:
	tests/run $(if $(filter asan,$@),unit) $@
rehearsal:
	tests/run rehearsal
fmt:
	git ls-files -z '*.c' '*.h' | xargs -0 $(CLANG_FORMAT) -i
clean:
	./build.sh clean

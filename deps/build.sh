#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the pinned third-party libraries from unpacked sources, statically, twice: against musl
# (for the binary) and against the host's C library (for tests under the sanitizers).
# It must not use the network, write outside OUT, or let a path of this machine into an object.
#
#   deps/build.sh SRC OUT     SRC/NAME/ is the unpacked source of NAME; OUT/musl and OUT/host get
#                             include/ and lib/.
set -euo pipefail

SRC=$(cd "$1" && pwd)
mkdir -p "$2"
OUT=$(cd "$2" && pwd)
HERE=$(cd "$(dirname "$0")" && pwd)
JOBS=${JOBS:-$(nproc)}
HOSTCC=${CC:-gcc}
export LC_ALL=C TZ=UTC SOURCE_DATE_EPOCH=0

say() { printf 'deps: %s\n' "$*"; }

# Writes OUT/uapi with the three folders of kernel headers that linux-libc-dev owns, and nothing else.
link_uapi() {
	local arch
	arch=$($HOSTCC -print-multiarch 2>/dev/null || true)
	[ -n "$arch" ] || arch=$(uname -m)-linux-gnu
	rm -rf "$OUT/uapi"
	mkdir -p "$OUT/uapi"
	ln -s /usr/include/linux "$OUT/uapi/linux"
	ln -s /usr/include/asm-generic "$OUT/uapi/asm-generic"
	ln -s "/usr/include/$arch/asm" "$OUT/uapi/asm"
}

# compile_archive VARIANT LIB.a OBJDIR "FLAGS" FILE...: compiles each file and archives the objects.
compile_archive() {
	local variant=$1 lib=$2 name=$3 flags=$4
	shift 4
	local obj=$OUT/obj/$variant/$name
	rm -rf "$obj"
	mkdir -p "$obj" "$OUT/$variant/lib"
	local base=(-O2 -g0 -w -std=gnu11 -ffunction-sections -fdata-sections -fstack-protector-strong
		-fPIE "-ffile-prefix-map=$SRC=/deps" "-ffile-prefix-map=$OUT=/out")
	[ "$variant" = musl ] && base+=("${MUSL_FLAGS[@]}")
	# shellcheck disable=SC2016,SC2086  # the inner shell expands the script; flags is a list of words
	printf '%s\n' "$@" | xargs -P "$JOBS" -I{} sh -c \
		'f=$1; obj=$2; shift 2; exec "$@" -c "$f" -o "$obj/$(basename "${f%.c}").o"' \
		_ {} "$obj" "$HOSTCC" "${base[@]}" $flags
	rm -f "$OUT/$variant/lib/$lib"
	(cd "$obj" && ar Dqc "$OUT/$variant/lib/$lib" ./*.o && ranlib -D "$OUT/$variant/lib/$lib")
}

build_musl() {
	say "musl: C library"
	rm -rf "$OUT/obj/musl-libc"
	mkdir -p "$OUT/obj/musl-libc"
	(
		cd "$OUT/obj/musl-libc"
		CC="$HOSTCC" CFLAGS="-O2 -g0 -fstack-protector-strong -ffunction-sections -fdata-sections \
-ffile-prefix-map=$SRC=/deps -ffile-prefix-map=$OUT=/out -fPIE" \
			"$SRC/musl/configure" --prefix="$OUT/musl" --syslibdir="$OUT/musl/lib" \
			--disable-shared --disable-wrapper --disable-gcc-wrapper >configure.log 2>&1 ||
			{ tail -20 configure.log >&2; exit 1; }
		{ make -s -j"$JOBS" RANLIB="ranlib -D" && make -s install; } >make.log 2>&1 ||
			{ tail -40 make.log >&2; exit 1; }
	)
	objcopy -D "$OUT/musl/lib/libc.a"
}

# The flags with which a library is compiled against the musl just built.
set_musl_flags() {
	local ccinc
	ccinc=$($HOSTCC -print-file-name=include)
	MUSL_FLAGS=(-nostdinc -isystem "$OUT/musl/include" -isystem "$ccinc" -idirafter "$OUT/uapi")
}

build_libs() { # VARIANT
	local v=$1 inc=$OUT/$1/include s
	mkdir -p "$inc"
	say "$v: zlib"
	s=$SRC/zlib
	compile_archive "$v" libz.a zlib "-D_LARGEFILE64_SOURCE=1 -DHAVE_HIDDEN -DHAVE_UNISTD_H" \
		"$s"/{adler32,compress,crc32,deflate,gzclose,gzlib,gzread,gzwrite,infback,inffast,inflate,inftrees,trees,uncompr,zutil}.c
	cp "$s/zlib.h" "$s/zconf.h" "$inc/"

	say "$v: libelf"
	s=$SRC/libelf
	mkdir -p "$OUT/obj/libelf-inc"
	cp "$HERE/libelf_config.h" "$OUT/obj/libelf-inc/config.h"
	cp "$s/libelf/elf.h" "$inc/elf.h"
	compile_archive "$v" libelf.a libelf \
		"-DHAVE_CONFIG_H -I$OUT/obj/libelf-inc -I$s/libelf -I$s/lib -I$inc" \
		"$s"/libelf/*.c "$s"/lib/eu-search.c
	mkdir -p "$inc/elfutils"
	cp "$s/libelf/libelf.h" "$s/libelf/gelf.h" "$s/libelf/nlist.h" "$inc/"
	cp "$s/libelf/elf-knowledge.h" "$inc/elfutils/"

	say "$v: libbpf"
	s=$SRC/libbpf
	compile_archive "$v" libbpf.a libbpf \
		"-I$s/src -I$s/include -I$s/include/uapi -I$inc -D_LARGEFILE64_SOURCE -D_FILE_OFFSET_BITS=64" \
		"$s"/src/*.c
	mkdir -p "$inc/bpf"
	cp "$s"/src/{bpf,libbpf,btf,libbpf_common,libbpf_legacy,libbpf_version,skel_internal}.h "$inc/bpf/"
	mkdir -p "$OUT/bpf/include/bpf"
	cp "$s"/src/{bpf_helpers,bpf_helper_defs,bpf_tracing,bpf_endian,bpf_core_read,usdt.bpf}.h "$OUT/bpf/include/bpf/"

	say "$v: libyaml"
	s=$SRC/libyaml
	compile_archive "$v" libyaml.a libyaml \
		"-I$s/include -DYAML_VERSION_MAJOR=0 -DYAML_VERSION_MINOR=2 -DYAML_VERSION_PATCH=5 -DYAML_VERSION_STRING=\"0.2.5\" -DYAML_DECLARE_STATIC" \
		"$s"/src/*.c
	cp "$s/include/yaml.h" "$inc/"

	say "$v: yyjson"
	s=$SRC/yyjson
	compile_archive "$v" libyyjson.a yyjson "-I$s/src" "$s/src/yyjson.c"
	cp "$s/src/yyjson.h" "$inc/"
}

link_uapi
build_musl
set_musl_flags
build_libs musl
build_libs host
rm -rf "$OUT/obj"
say "done"

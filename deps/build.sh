#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the pinned third-party libraries from unpacked sources, statically, twice: against musl
# (for the binary) and against the host's C library (for tests under the sanitizers; not for ARCH, another
# machine than this one).
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
ARCH=${ARCH:-$(uname -m)}
CROSS='' VARIANTS="musl host"
if [ "$ARCH" != "$(uname -m)" ]; then
	CROSS=$ARCH-linux-gnu- VARIANTS=musl
fi
HOSTCC=${CC:-${CROSS}gcc}
export LC_ALL=C TZ=UTC SOURCE_DATE_EPOCH=0

say() { printf 'deps: %s\n' "$*"; }

# Writes OUT/uapi with the three folders of kernel headers that linux-libc-dev owns, and nothing else.
link_uapi() {
	local arch from=/usr/include asm
	arch=$($HOSTCC -print-multiarch 2>/dev/null || true)
	[ -n "$arch" ] || arch=$ARCH-linux-gnu
	asm=$from/$arch/asm
	[ -z "$CROSS" ] || from=/usr/$ARCH-linux-gnu/include asm=/usr/$ARCH-linux-gnu/include/asm
	rm -rf "$OUT/uapi"
	mkdir -p "$OUT/uapi"
	ln -s "$from/linux" "$OUT/uapi/linux"
	ln -s "$from/asm-generic" "$OUT/uapi/asm-generic"
	ln -s "$asm" "$OUT/uapi/asm"
}

# compile_archive VARIANT LIB.a OBJDIR "FLAGS" FILE...: compiles each file and archives the objects, each under its
# file's whole path, since some libraries have several files of one name.
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
		'f=$1; obj=$2; o=$(printf %s "${f#"$3/"}" | tr / _); shift 3; exec "$@" -c "$f" -o "$obj/${o%.c}.o"' \
		_ {} "$obj" "$SRC" "$HOSTCC" "${base[@]}" $flags
	rm -f "$OUT/$variant/lib/$lib"
	(cd "$obj" && "${CROSS}ar" Dqc "$OUT/$variant/lib/$lib" ./*.o && "${CROSS}ranlib" -D "$OUT/$variant/lib/$lib")
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
		{ make -s -j"$JOBS" AR="${CROSS}ar" RANLIB="${CROSS}ranlib -D" && make -s install; } >make.log 2>&1 ||
			{ tail -40 make.log >&2; exit 1; }
	)
	"${CROSS}objcopy" -D "$OUT/musl/lib/libc.a"
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

	# The unpacking half only.
	say "$v: libdeflate"
	s=$SRC/libdeflate
	compile_archive "$v" libdeflate.a libdeflate "-I$s" \
		"$s"/lib/{deflate_decompress,gzip_decompress,crc32,utils,x86/cpu_features,arm/cpu_features}.c
	cp "$s/libdeflate.h" "$inc/"

	# nghttp2's source package has it as the C that its own generator wrote; nothing else of nghttp2 is used.
	say "$v: llhttp"
	s=$SRC/llhttp/third-party/llhttp
	compile_archive "$v" libllhttp.a llhttp "-I$s/include" "$s"/src/{api,http,llhttp}.c
	cp "$s/include/llhttp.h" "$inc/"
}

# Compilers as configure scripts want them: that of musl links static PIEs and never sees the host's libc.
write_compilers() {
	local m=$OUT/musl/lib map="-ffile-prefix-map=$SRC=/deps -ffile-prefix-map=$OUT=/out"
	mkdir -p "$OUT/bin"
	cat >"$OUT/bin/musl-cc" <<-EOF
		#!/bin/sh
		set -- $map -nostdinc -isystem "$OUT/musl/include" -isystem "$($HOSTCC -print-file-name=include)" -idirafter "$OUT/uapi" "\$@"
		for arg; do
			case \$arg in -c | -S | -E | -M | -MM) exec $HOSTCC "\$@" ;; esac
		done
		exec $HOSTCC -nostdlib -nostartfiles -static-pie "$m/rcrt1.o" "$m/crti.o" "$($HOSTCC -print-file-name=crtbeginS.o)" \\
			"\$@" -L"$m" -Wl,--start-group -lc "$($HOSTCC -print-file-name=libgcc.a)" \\
			"$($HOSTCC -print-file-name=libgcc_eh.a)" -Wl,--end-group "$($HOSTCC -print-file-name=crtendS.o)" "$m/crtn.o"
	EOF
	printf '#!/bin/sh\nexec %s %s "$@"\n' "$([ -n "$CROSS" ] && echo gcc || echo "$HOSTCC")" "$map" >"$OUT/bin/host-cc"
	chmod +x "$OUT/bin/musl-cc" "$OUT/bin/host-cc"
}

CFLAGS_PLAIN="-O2 -g0 -w -ffunction-sections -fdata-sections -fstack-protector-strong -fPIE"

# in_folder NAME CMD...: runs it in an empty folder for objects; the end of its log is shown when it fails.
in_folder() {
	local dir=$OUT/obj/$1
	shift
	rm -rf "$dir"
	mkdir -p "$dir"
	(cd "$dir" && "$@" >log 2>&1) || { tail -40 "$dir/log" >&2; exit 1; }
}

build_mbedtls() { # VARIANT
	local v=$1 s=$SRC/mbedtls inc=$OUT/$1/include t=$SRC/mbedtls/3rdparty
	say "$v: mbedtls"
	cp -r "$s/include/mbedtls" "$s/include/psa" "$inc/"
	cp "$HERE/mbedtls_user_config.h" "$inc/mbedtls/user_config.h"
	# In the installed headers, so that whoever includes them has the same configuration.
	sed -i 's|^//#define MBEDTLS_USER_CONFIG_FILE.*|#define MBEDTLS_USER_CONFIG_FILE "mbedtls/user_config.h"|' "$inc/mbedtls/mbedtls_config.h"
	compile_archive "$v" libmbedtls.a mbedtls "-I$inc -I$s/library -I$t/everest/include \
-I$t/everest/include/everest -I$t/everest/include/everest/kremlib -I$t/p256-m/p256-m/include -I$t/p256-m/p256-m/include/p256-m -I$t/p256-m/p256-m" \
		"$s"/library/*.c "$t"/everest/library/{everest,x25519,Hacl_Curve25519_joined}.c "$t"/p256-m/p256-m_driver_entrypoints.c "$t"/p256-m/p256-m/p256-m.c
	# configure scripts ask for three libraries; all of it is in the first.
	"${CROSS}ar" Dcq "$OUT/$v/lib/libmbedx509.a"
	"${CROSS}ar" Dcq "$OUT/$v/lib/libmbedcrypto.a"
}

# The upstream archive carries no configure script: the portable code is compiled as it is.
build_libsodium() { # VARIANT
	local v=$1 s=$SRC/libsodium/src/libsodium files
	say "$v: libsodium"
	sed -e 's/@VERSION@/1.0.18/' -e 's/@SODIUM_LIBRARY_VERSION_MAJOR@/10/' -e 's/@SODIUM_LIBRARY_VERSION_MINOR@/3/' \
		-e 's/@SODIUM_LIBRARY_MINIMAL_DEF@//' "$s/include/sodium/version.h.in" >"$s/include/sodium/version.h"
	mapfile -t files < <(find "$s" -name '*.c' -print | sort)
	compile_archive "$v" libsodium.a sodium "-DSODIUM_STATIC=1 -DCONFIGURED=1 -DNATIVE_LITTLE_ENDIAN=1 -DHAVE_TI_MODE=1 \
-DHAVE_GETRANDOM=1 -DHAVE_EXPLICIT_BZERO=1 -DHAVE_MLOCK=1 -DHAVE_MMAP=1 -DHAVE_MPROTECT=1 -DHAVE_SYS_MMAN_H=1 \
-DHAVE_SYS_RANDOM_H=1 -DHAVE_WEAK_SYMBOLS=1 -DHAVE_ATOMIC_OPS=1 -DTLS=_Thread_local -I$s/include/sodium -I$s/include -I$OUT/$v/include" "${files[@]}"
	cp -r "$s/include/sodium" "$s/include/sodium.h" "$OUT/$v/include/"
}

# The one big file is put together by its own script, in Tcl; then it is a plain C file.
amalgamate_sqlite() {
	say "sqlite: amalgamation"
	in_folder sqlite sh -c "CC='$OUT/bin/host-cc' '$SRC/sqlite/configure' --disable-tcl --disable-shared >configure.log 2>&1 && make -s sqlite3.c"
	cp "$OUT/obj/sqlite/sqlite3.c" "$OUT/obj/sqlite/sqlite3.h" "$SRC/sqlite/"
}

build_sqlite() { # VARIANT
	local v=$1 s=$SRC/sqlite
	say "$v: sqlite"
	compile_archive "$v" libsqlite3.a sqlite "-DSQLITE_THREADSAFE=2 -DSQLITE_DQS=0 -DSQLITE_DEFAULT_MEMSTATUS=0 -DSQLITE_DEFAULT_WAL_SYNCHRONOUS=1 \
-DSQLITE_LIKE_DOESNT_MATCH_BLOBS -DSQLITE_OMIT_DEPRECATED -DSQLITE_OMIT_SHARED_CACHE -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_USE_ALLOCA \
-DSQLITE_ENABLE_COLUMN_METADATA -DSQLITE_ENABLE_STAT4 -DSQLITE_ENABLE_MATH_FUNCTIONS -DHAVE_USLEEP -DHAVE_FDATASYNC -I$OUT/$v/include" "$s/sqlite3.c"
	cp "$s/sqlite3.h" "$OUT/$v/include/"
}

build_curl() { # VARIANT
	local v=$1 p=$OUT/$1
	say "$v: curl"
	# shellcheck disable=SC2016  # the inner shell expands it
	in_folder "$v-curl" sh -c 'CC=$1 CFLAGS=$2 AR=$5ar ARFLAGS=Dcr RANLIB="$5ranlib -D"
		export CC CFLAGS AR ARFLAGS RANLIB
		out=$3 jobs=$4
		shift 5
		"$@" && make -s -j"$jobs" -C lib && make -s -C lib install && make -s -C include install' _ \
		"$OUT/bin/$v-cc" "$CFLAGS_PLAIN" "$p" "$JOBS" "$CROSS" \
		"$SRC/curl/configure" --prefix="$p" --host="$ARCH-linux-$([ "$v" = musl ] && echo musl || echo gnu)" \
		--disable-shared --enable-static --disable-dependency-tracking \
		--with-mbedtls="$p" --with-zlib="$p" --enable-http --without-ca-bundle --without-ca-path \
		--disable-{ftp,file,ldap,ldaps,rtsp,dict,telnet,tftp,pop3,imap,smb,smtp,gopher,mqtt,ipfs,websockets} \
		--disable-{manual,docs,ntlm,kerberos-auth,negotiate-auth,aws,netrc,alt-svc,hsts,doh,cookies,tls-srp} \
		--without-{libpsl,libidn2,nghttp2,brotli,zstd,libssh2,librtmp} --enable-threaded-resolver
}

# What a TLS client trusts where the host has no bundle of its own.
write_ca_bundle() {
	say "CA bundle"
	mkdir -p "$OUT/share"
	LC_ALL=C awk -f "$HERE/certdata.awk" "$SRC/ca-certificates/mozilla/certdata.txt" >"$OUT/share/ca-bundle.pem"
}

link_uapi
build_musl
set_musl_flags
write_compilers
amalgamate_sqlite
write_ca_bundle
for variant in $VARIANTS; do
	build_libs "$variant"
	build_mbedtls "$variant"
	build_libsodium "$variant"
	build_sqlite "$variant"
	build_curl "$variant"
done
rm -rf "${OUT:?}/obj" "${OUT:?}/bin" "${OUT:?}"/{musl,host}/{bin,share,lib/pkgconfig,lib/*.la}
say "done"

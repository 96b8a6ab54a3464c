#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds, against the musl that deps/build.sh left in OUT, the libraries that the streamer and the
# updater will link: mbedTLS, curl (HTTP and HTTPS only, over mbedTLS) and libsodium. They are no part
# of build/tracer yet, so an ordinary build does not spend time on them.
#
#   deps/build_later.sh SRC OUT
set -euo pipefail

SRC=$(cd "$1" && pwd)
OUT=$(cd "$2" && pwd)
JOBS=${JOBS:-$(nproc)}
HOSTCC=${CC:-gcc}
export LC_ALL=C TZ=UTC SOURCE_DATE_EPOCH=0
CFLAGS="-O2 -g0 -w -ffunction-sections -fdata-sections -fstack-protector-strong -fPIE \
-ffile-prefix-map=$SRC=/deps -ffile-prefix-map=$OUT=/out"

say() { printf 'deps: %s\n' "$*"; }

# A compiler for configure scripts: links static PIEs against our musl and never sees the host's libc.
write_compiler() {
	local m=$OUT/musl/lib
	mkdir -p "$OUT/bin"
	cat >"$OUT/bin/musl-cc" <<-EOF
		#!/bin/sh
		set -- -nostdinc -isystem "$OUT/musl/include" -isystem "$($HOSTCC -print-file-name=include)" -idirafter "$OUT/uapi" "\$@"
		for arg; do
			case \$arg in -c | -S | -E | -M | -MM) exec $HOSTCC "\$@" ;; esac
		done
		exec $HOSTCC -nostdlib -nostartfiles -static-pie "$m/rcrt1.o" "$m/crti.o" "$($HOSTCC -print-file-name=crtbeginS.o)" \\
			"\$@" -L"$m" -Wl,--start-group -lc "$($HOSTCC -print-file-name=libgcc.a)" \\
			"$($HOSTCC -print-file-name=libgcc_eh.a)" -Wl,--end-group "$($HOSTCC -print-file-name=crtendS.o)" "$m/crtn.o"
	EOF
	chmod +x "$OUT/bin/musl-cc"
}

# configure_build NAME CONFIGURE-ARG...: out of tree, quietly, with the log shown on failure.
configure_build() {
	local name=$1 dir=$OUT/later/$1
	shift
	say "musl: $name"
	rm -rf "$dir"
	mkdir -p "$dir"
	(
		cd "$dir"
		CC="$OUT/bin/musl-cc" CFLAGS="$CFLAGS" AR=ar ARFLAGS=Dcr RANLIB="ranlib -D" \
			"$SRC/$name/configure" --prefix="$OUT/musl" --host="$(uname -m)-linux-musl" \
			--disable-shared --enable-static --disable-dependency-tracking "$@" >configure.log 2>&1 ||
			{ tail -30 configure.log >&2; exit 1; }
		make -s -j"$JOBS" >make.log 2>&1 || { tail -40 make.log >&2; exit 1; }
		make -s install >>make.log 2>&1 || { tail -40 make.log >&2; exit 1; }
	)
}

build_mbedtls() {
	local s=$SRC/mbedtls obj=$OUT/later/mbedtls
	say "musl: mbedtls"
	rm -rf "$obj"
	mkdir -p "$obj"
	# shellcheck disable=SC2016,SC2086  # the inner shell expands the script; CFLAGS is a list of words
	printf '%s\n' "$s"/library/*.c "$s"/3rdparty/everest/library/{everest,x25519,Hacl_Curve25519_joined}.c \
		"$s"/3rdparty/p256-m/p256-m_driver_entrypoints.c "$s"/3rdparty/p256-m/p256-m/p256-m.c |
		xargs -P "$JOBS" -I{} sh -c 'f=$1; obj=$2; shift 2; exec "$@" -c "$f" -o "$obj/$(basename "${f%.c}").o"' \
			_ {} "$obj" "$OUT/bin/musl-cc" $CFLAGS -I"$s/include" -I"$s/library" -I"$s/3rdparty/everest/include" \
			-I"$s/3rdparty/everest/include/everest" -I"$s/3rdparty/everest/include/everest/kremlib" \
			-I"$s/3rdparty/p256-m/p256-m/include" -I"$s/3rdparty/p256-m/p256-m/include/p256-m" -I"$s/3rdparty/p256-m/p256-m"
	# curl's configure asks for three libraries; all of it is in the first.
	(cd "$obj" && rm -f "$OUT/musl/lib/libmbedtls.a" && ar Dcq "$OUT/musl/lib/libmbedtls.a" ./*.o && ranlib -D "$OUT/musl/lib/libmbedtls.a")
	ar Dcq "$OUT/musl/lib/libmbedx509.a"
	ar Dcq "$OUT/musl/lib/libmbedcrypto.a"
	cp -r "$s/include/mbedtls" "$s/include/psa" "$OUT/musl/include/"
}

# The upstream archive carries no configure script: the portable code is compiled as it is.
build_libsodium() {
	local s=$SRC/libsodium/src/libsodium obj=$OUT/later/libsodium
	say "musl: libsodium"
	rm -rf "$obj"
	mkdir -p "$obj"
	sed -e 's/@VERSION@/1.0.18/' -e 's/@SODIUM_LIBRARY_VERSION_MAJOR@/10/' -e 's/@SODIUM_LIBRARY_VERSION_MINOR@/3/' \
		-e 's/@SODIUM_LIBRARY_MINIMAL_DEF@//' "$s/include/sodium/version.h.in" >"$s/include/sodium/version.h"
	# shellcheck disable=SC2016,SC2086  # the inner shell expands the script; CFLAGS is a list of words
	find "$s" -name '*.c' -print | sort |
		xargs -P "$JOBS" -I{} sh -c 'f=$1; obj=$2; cut=$3; shift 3; o=$(printf %s "${f#"$cut"}" | tr / _); exec "$@" -c "$f" -o "$obj/${o%.c}.o"' \
			_ {} "$obj" "$s/" "$OUT/bin/musl-cc" $CFLAGS -DSODIUM_STATIC=1 -DCONFIGURED=1 -DNATIVE_LITTLE_ENDIAN=1 -DHAVE_TI_MODE=1 \
			-DHAVE_GETRANDOM=1 -DHAVE_EXPLICIT_BZERO=1 -DHAVE_MLOCK=1 -DHAVE_MMAP=1 -DHAVE_MPROTECT=1 -DHAVE_SYS_MMAN_H=1 \
			-DHAVE_SYS_RANDOM_H=1 -DHAVE_WEAK_SYMBOLS=1 -DHAVE_ATOMIC_OPS=1 -DTLS=_Thread_local \
			-I"$s/include/sodium" -I"$s/include"
	rm -f "$OUT/musl/lib/libsodium.a"
	(cd "$obj" && ar Dcq "$OUT/musl/lib/libsodium.a" ./*.o && ranlib -D "$OUT/musl/lib/libsodium.a")
	cp -r "$s/include/sodium" "$s/include/sodium.h" "$OUT/musl/include/"
}

write_compiler
build_mbedtls
configure_build curl --with-mbedtls="$OUT/musl" --with-zlib="$OUT/musl" --enable-http --without-ca-bundle --without-ca-path \
	--disable-{ftp,file,ldap,ldaps,rtsp,dict,telnet,tftp,pop3,imap,smb,smtp,gopher,mqtt,ipfs,websockets} \
	--disable-{manual,docs,ntlm,kerberos-auth,negotiate-auth,aws,netrc,alt-svc,hsts,doh,cookies,tls-srp,unix-sockets} \
	--without-{libpsl,libidn2,nghttp2,brotli,zstd,libssh2,librtmp} --enable-threaded-resolver
build_libsodium
rm -rf "$OUT/later"
say "mbedTLS, curl and libsodium done"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The one command: installs what is missing, fetches the pinned sources, builds, tests, runs.
# It installs packages only when it is root; everything it writes is under build/.
set -euo pipefail

usage() {
	cat <<'EOF'
Usage: ./build.sh [OPTION...] [COMMAND]

Builds build/tracer: one static binary that runs on any Linux distribution.

Commands:
  (none)              install what is missing, fetch the pinned sources, build build/tracer
  run [-- CMD...]     build, then record CMD and print its report; without CMD: collector and datalake
                      together, a small demo pipeline, and its report from the datalake; on a
                      terminal both go on until Ctrl-C
  test [--long]       build, then run every test; --long adds storms, soaks and more kernels
  sources DIR         fetch all pinned sources into DIR, for a build without a network
  clean               remove what was built, but not the third-party libraries and sources
  clean --all         remove build/

Options:
  --offline DIR       take the sources from DIR (see 'sources'); the network is not used
  --locked            take exactly the Debian revisions that deps.lock names, not newer security ones
  -h, --help          this text

Environment:
  CC                  C compiler for the binary: gcc (default) or clang
  ARCH                machine that it is for: this one (default), x86_64 or aarch64; one build/ is for one machine
  JOBS                parallel jobs (default: one for each core)
  TRACER_DEPS_CACHE   folder that keeps built third-party libraries between clones

Exit codes: 0 done; 1 the build or a test failed; 2 wrong usage; 3 something has to be installed first.

Examples:
  ./build.sh
  ./build.sh run -- make -j4
  ./build.sh sources /media/usb/sources && ./build.sh --offline /media/usb/sources
EOF
}

ROOT=$(cd "$(dirname "$0")" && pwd)
cd "$ROOT"
ARCH=${ARCH:-$(uname -m)} cross=''
[ "$ARCH" = "$(uname -m)" ] || cross=$ARCH-linux-gnu-
export ARCH CC=${CC:-${cross}gcc} JOBS=${JOBS:-$(nproc)}
# Not for what is started from here: tracer takes TRACER_* for its options.
deps_cache=${TRACER_DEPS_CACHE:-}
unset TRACER_DEPS_CACHE

BUILD_PACKAGES="gcc libc6-dev linux-libc-dev binutils make clang-19 llvm-19 bpftool dpkg-dev patch tcl xz-utils bzip2 ca-certificates"

case $cross in
aarch64-*) BUILD_PACKAGES="$BUILD_PACKAGES gcc-aarch64-linux-gnu linux-libc-dev-arm64-cross" ;;
x86_64-*) BUILD_PACKAGES="$BUILD_PACKAGES gcc-x86-64-linux-gnu linux-libc-dev-amd64-cross" ;;
esac

say() { printf 'build: %s\n' "$*"; }
die() { printf 'build: %s\n' "$1" >&2; exit "${2:-1}"; }
usage_error() { printf "build: %s; see './build.sh --help'\n" "$1" >&2; exit 2; }

# Installs the named packages that are not there, or says how and stops.
need_packages() {
	command -v dpkg-query >/dev/null || die "this is not Debian 12 or 13: build in a container (Containerfile); the binary itself runs anywhere" 3
	local missing='' have p
	# It fails when one name is unknown to it, yet prints the others.
	have=" $(dpkg-query -W -f '${db:Status-Status}=${Package} ' "$@" 2>/dev/null || true) "
	for p in "$@"; do
		case $have in *" installed=$p "*) ;; *) missing="$missing $p" ;; esac
	done
	[ -n "$missing" ] || return 0
	if [ "$(id -u)" != 0 ] || [ -n "$offline" ]; then
		printf 'build: these packages are missing; install them with:\n  sudo apt-get update && sudo apt-get install -y --no-install-recommends%s\n' "$missing" >&2
		exit 3
	fi
	say "installing$missing"
	mkdir -p build
	# shellcheck disable=SC2086  # a list of words
	{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -y -qq --no-install-recommends install $missing; } \
		>build/install.log 2>&1 </dev/null || { tail -20 build/install.log >&2; die "apt-get could not install:$missing"; }
}

# Names this state of the third-party libraries: pins, recipes and compiler.
deps_key() {
	{ cat deps.lock deps/build.sh deps/*.h deps/certdata.awk; "$CC" --version; printf '%s\n' "$ARCH"; } | sha256sum | cut -c1-16
}

# True when the libraries in $1 are of this key and, under --locked, of the pinned revisions only.
deps_usable() {
	[ -f "$1/key" ] && [ "$(cat "$1/key")" = "$2" ] || return 1
	[ "$locked" = 0 ] || ! deps_unpinned "$1"
}

# True when a library in $1 is of another Debian revision than the pinned one.
deps_unpinned() {
	local name upstream rev
	while read -r name upstream rev; do
		[ "$rev" = - ] || awk -v n="$name" -v u="$upstream" -v r="$rev" \
			'$1 == n && $3 == u && $4 == r { found = 1 } END { exit !found }' deps.lock || return 0
	done <"$1/revisions"
	return 1
}

build_deps() {
	local key target=build/deps from=${offline:-build/sources} tmp lockflag=''
	key=$(deps_key)
	[ "$locked" = 1 ] && lockflag=--locked
	deps_usable build/deps "$key" && return 0
	mkdir -p build
	if [ -n "$deps_cache" ]; then
		mkdir -p "$deps_cache"
		target=$(cd "$deps_cache" && pwd)/$key
		if deps_usable "$target" "$key"; then
			say "third-party libraries: taken from the cache"
			rm -rf build/deps
			ln -s "$target" build/deps
			return 0
		fi
	fi
	tmp=$(mktemp -d "$target.XXXXXX")
	# shellcheck disable=SC2064  # the name as it is now
	trap "rm -rf '$tmp'" EXIT
	if [ -z "$offline" ]; then
		# shellcheck disable=SC2086  # empty or one word
		deps/fetch.sh $lockflag "$from"
	fi
	# shellcheck disable=SC2086  # empty or one word
	deps/unpack.sh $lockflag "$from" "$tmp/src"
	say "third-party libraries: compiling (about three minutes on two cores)"
	deps/build.sh "$tmp/src" "$tmp"
	mv "$tmp/src/revisions" "$tmp/revisions"
	rm -rf "$tmp/src"
	printf '%s\n' "$key" >"$tmp/key"
	chmod 755 "$tmp"
	rm -rf build/deps "$target"
	mv "$tmp" "$target"
	trap - EXIT
	[ "$target" = build/deps ] || ln -s "$target" build/deps
}

# Objects of two machines in one folder would be linked together.
check_arch() {
	local held=$ARCH
	[ ! -d build/obj ] || held=$(uname -m)
	[ ! -f build/arch ] || held=$(cat build/arch)
	[ "$held" = "$ARCH" ] || die "build/ is for $held: take another clone for $ARCH, or ./build.sh clean first" 2
	mkdir -p build
	printf '%s\n' "$ARCH" >build/arch
}

build_tracer() {
	check_arch
	# shellcheck disable=SC2086  # a list of words
	need_packages $BUILD_PACKAGES
	build_deps
	make -s -j"$JOBS" all
	[ -f build/tracer ] || die "make built no build/tracer"
	printf 'build/tracer  %s bytes  sha256 %s\n' "$(wc -c <build/tracer)" "$(sha256sum build/tracer | cut -d' ' -f1)"
}

offline='' locked=0
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) usage; exit 0 ;;
	--offline)
		[ $# -ge 2 ] || usage_error "--offline needs a folder"
		[ -d "$2" ] || usage_error "--offline: no such folder: $2"
		offline=$(cd "$2" && pwd)
		shift 2
		;;
	--locked) locked=1; shift ;;
	-*) usage_error "unknown option: $1" ;;
	*) break ;;
	esac
done
command=${1:-build}
[ $# -eq 0 ] || shift

case $command in
build)
	[ $# -eq 0 ] || usage_error "unexpected argument: $1"
	build_tracer
	;;
run)
	[ "${1:-}" != -- ] || shift
	build_tracer >&2
	[ $# -eq 0 ] || exec build/tracer run -- "$@"
	rm -rf build/demo
	exec build/tracer up --demo --directory build/demo
	;;
test)
	long=''
	case ${1:-} in
	'') ;;
	--long) long=--long; shift ;;
	*) usage_error "test: unknown argument: $1" ;;
	esac
	[ $# -eq 0 ] || usage_error "test: unexpected argument: $1"
	lists=tests/packages.txt
	[ -z "$long" ] || lists="$lists tests/packages-long.txt"
	# shellcheck disable=SC2046,SC2086  # lists of words
	need_packages $BUILD_PACKAGES $(sed '/^#/d' $lists)
	build_tracer
	# shellcheck disable=SC2086  # empty or one word
	exec tests/run $long
	;;
sources)
	[ $# -eq 1 ] || usage_error "sources: give one folder"
	[ -z "$offline" ] || usage_error "sources fetches from the network; --offline does not go with it"
	if [ "$locked" = 1 ]; then deps/fetch.sh --locked "$1"; else deps/fetch.sh "$1"; fi
	printf 'build: %s holds the sources; build with: ./build.sh --offline %s\n' "$1" "$1"
	;;
clean)
	case ${1:-} in
	'') find build -mindepth 1 -maxdepth 1 ! -name deps ! -name sources ! -name apt ! -name venv -exec rm -rf {} + 2>/dev/null || true ;;
	--all) rm -rf build ;;
	*) usage_error "clean: unknown argument: $1" ;;
	esac
	;;
*) usage_error "unknown command: $command" ;;
esac

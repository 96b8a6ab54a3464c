#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs Tracer: curl -fsSL https://HOST/install.sh | sh        (docs/install.md; --help)
# POSIX shell. All of it is one group that a shell reads to its end before it runs a byte: cut short, it does nothing.
# Nothing that was fetched is executed before its hash was found in what the release's key signed or in the pins below.
# Every step looks first and changes only what differs, through a rename: run again after any kill, it comes to the same end.
{
# >>> release: filled in by release/installer
release_url=''
release_channel=''
release_version=''
release_keys=''
release_sums=''
# <<< release

usage() {
	cat <<'EOF'
Usage: install.sh [OPTION...]

Installs Tracer, makes its service and starts it. Run as root, or with --prefix for the program alone.

  --version VERSION   another version than this script's; needs minisign, signify or OpenSSL 3
  --channel NAME      another channel than this script's, its latest version
  --offline PATH      take everything from a folder of the server's layout, a tar file of one, or a bundle; no network
  --url URL           take it from this mirror
  --endpoint URL      datalake that records are delivered to
  --pin PIN           its public key, sha256//...
  --token-file FILE   its ingest token; copied to /etc/tracer/token
  --proxy URL         for this download and for delivery
  --user NAME         user without rights for what talks to the network (default: tracer)
  --prefix DIR        where the program goes (default: /usr/local)
  --no-start          do not start the service now
  --image             prepare a golden image: do not start, leave no identity
  --dry-run           say what would be done, and write nothing
  --uninstall         remove Tracer; records, configuration and their user stay
  --purge             with --uninstall: remove those too
  -h, --help          this text

Each is a variable too: TRACER_INSTALL_VERSION=..., TRACER_INSTALL_DRY_RUN=1; TRACER_INSTALL_INIT=systemd|openrc|sysv|none
says which service manager there is.

Exit codes: 0 done; 1 it failed or was refused; 2 wrong usage; 3 not supported here, or not permitted.
EOF
}

say() { printf 'tracer: %s\n' "$*"; }
warn() { printf 'tracer: %s\n' "$*" >&2; }
die() { warn "$2"; exit "$1"; } # CODE WORDS
has() { command -v "$1" >/dev/null 2>&1; }

# change WORDS: tells, and is true when it shall be done.
change() {
	changed=1
	[ "$dry_run" = 0 ] || { say "would $*" && return 1; }
	say "$*"
}

# ---- what is asked for ---------------------------------------------------------------------------
defaults() {
	units='tracer-update.timer tracer-update.service tracer-guard.service tracer.service tracer-datalake.service' # of systemd
	version=${TRACER_INSTALL_VERSION:-} channel=${TRACER_INSTALL_CHANNEL:-} offline=${TRACER_INSTALL_OFFLINE:-}
	url=${TRACER_INSTALL_URL:-$release_url} endpoint=${TRACER_INSTALL_ENDPOINT:-} pin=${TRACER_INSTALL_PIN:-}
	token_file=${TRACER_INSTALL_TOKEN_FILE:-} proxy=${TRACER_INSTALL_PROXY:-} user=${TRACER_INSTALL_USER:-}
	prefix=${TRACER_INSTALL_PREFIX:-} no_start=${TRACER_INSTALL_NO_START:-0} image=${TRACER_INSTALL_IMAGE:-0}
	dry_run=${TRACER_INSTALL_DRY_RUN:-0} uninstall=${TRACER_INSTALL_UNINSTALL:-0} purge=${TRACER_INSTALL_PURGE:-0}
	init=${TRACER_INSTALL_INIT:-}
	# The program refuses variables of its prefix that are none of its options.
	for each in VERSION CHANNEL OFFLINE URL ENDPOINT PIN TOKEN_FILE PROXY USER PREFIX NO_START IMAGE DRY_RUN UNINSTALL PURGE INIT; do
		unset "TRACER_INSTALL_$each"
	done
	stage='' tool='' changed=0
}

arguments() {
	while [ $# -gt 0 ]; do
		name=$(printf '%s' "${1#--}" | tr - _)
		case $1 in
		--version | --channel | --offline | --url | --endpoint | --pin | --token-file | --proxy | --user | --prefix)
			[ $# -ge 2 ] || die 2 "$1 needs a value; see --help"
			value=$2
			shift
			;;
		--no-start | --image | --dry-run | --uninstall | --purge)
			# shellcheck disable=SC2034  # the eval below reads it
			value=1
			;;
		-h | --help) usage && exit 0 ;;
		*) die 2 "unknown option: $1; see --help" ;;
		esac
		eval "$name=\$value"
		shift
	done
}

# word NAME VALUE ALLOWED: the value becomes part of paths, files and command lines.
word() {
	case $2 in
	*[!]A-Za-z0-9$3]* | -* | .*) die 2 "$1: \"$2\" holds what cannot stand there" ;;
	esac
}

check_arguments() {
	root=0
	[ "$(id -u)" != 0 ] || root=1
	[ "$dry_run" = 0 ] || [ -n "$prefix" ] || root=1
	[ "$root" = 1 ] || [ -n "$prefix" ] ||
		die 3 "needs root for the service (sudo sh install.sh ...); --prefix DIR installs the program alone"
	config_asked=$endpoint$pin$proxy$user$token_file
	prefix=${prefix:-/usr/local} user=${user:-tracer}
	prefix=${prefix%/}
	case $prefix in
	/*[!A-Za-z0-9._/+-]* | */../* | */..) die 2 "--prefix: \"$prefix\" holds what cannot stand there" ;;
	/?*) ;;
	*) die 2 "--prefix: \"$prefix\" is not an absolute path" ;;
	esac
	lib=$prefix/lib/tracer
	word --user "$user" '._-'
	word --version "$version" '.+-'
	word --channel "$channel" '-'
	word --pin "$pin" '/+='
	word --endpoint "$endpoint" '._~:/@%[-'
	word --proxy "$proxy" '._~:/@%[-'
	case $endpoint in '' | https://?* | http://127.* | http://localhost* | http://\[::1\]*) ;;
	*) die 2 "--endpoint: \"$endpoint\" does not begin with https://" ;; esac
	[ -z "$token_file" ] || [ -r "$token_file" ] || die 2 "--token-file: cannot read $token_file"
	[ "$purge" = 0 ] || [ "$uninstall" = 1 ] || die 2 "--purge goes with --uninstall"
	[ "$uninstall" = 0 ] || return 0
	[ -n "$release_version" ] || die 1 "this install.sh is not of a release: it holds no key and no hashes, and installs nothing. release/installer makes one that does"
	[ -z "$offline" ] || [ -r "$offline" ] || die 2 "--offline: cannot read $offline"
	case $url in
	https://* | http://127.* | http://localhost[:/]* | http://\[::1\]*) ;;
	*) [ -n "$offline" ] || die 2 "--url: \"$url\" does not begin with https://" ;;
	esac
	url=${url%/}
	[ -z "$proxy" ] || export http_proxy="$proxy" https_proxy="$proxy" HTTPS_PROXY="$proxy" ALL_PROXY="$proxy"
}

check_machine() {
	[ "$(uname -s)" = Linux ] || die 3 "this is $(uname -s); Tracer records Linux"
	machine=$(uname -m)
	case $machine in amd64) machine=x86_64 ;; arm64) machine=aarch64 ;; esac
}

# ---- fetching and checking -----------------------------------------------------------------------------
# entry PATH: from a bundle: lines "NAME SIZE", each with its bytes and a newline behind; a target's name begins with its hash.
entry() {
	at=17
	while part=$(tail -c "+$at" "$offline" | head -c 600 | head -n 1 | tr -d '\000') && [ -n "$part" ]; do
		size=${part##* } at=$((at + ${#part} + 1))
		case $size in '' | *[!0-9]* | 0?* | ????????????*) return 1 ;; esac
		case ${part% *} in "targets/${1%/*}/"*."${1##*/}") tail -c "+$at" "$offline" | head -c "$size" && return 0 ;; esac
		at=$((at + size + 1))
	done
	return 1
}

# fetch PATH FILE KIBIBYTES: a file of the release's tree. Too much of it kills the download, not the disk.
fetch() {
	if [ -n "$offline" ]; then
		if [ -d "$offline" ]; then cp "$offline/$1" "$2"
		elif [ "$(dd bs=15 count=1 <"$offline" | tr -d '\000')" = "tracer-bundle 1" ]; then entry "$1" >"$2"
		else tar -xOf "$offline" "$1" >"$2" || tar -xOf "$offline" "./$1" >"$2"
		fi 2>/dev/null || die 1 "$offline has no $1"
		return 0
	fi
	(
		ulimit -f $(($3 * 2))
		! has curl || exec curl -fsSL --retry 3 --connect-timeout 15 --max-time 600 --proto '=http,https' -o "$2" "$url/$1"
		exec wget -q -O "$2" "$url/$1"
	) </dev/null 2>"$stage/error" && return 0
	die 1 "cannot fetch $url/$1: $(tail -n 1 "$stage/error")"
}

hash_of() { # FILE
	if has sha256sum; then sha256sum <"$1"; elif has shasum; then shasum -a 256 <"$1"; else openssl dgst -sha256 -r <"$1"; fi |
		cut -d ' ' -f 1
}

# The tool that checks Ed25519 here; none is possible. Debian's "signify" is another program than OpenBSD's.
find_tool() {
	has sha256sum || has shasum || has openssl || die 3 "needs sha256sum, shasum or openssl"
	[ -n "$offline" ] || has curl || has wget || die 3 "needs curl or wget"
	if has openssl && openssl version | grep -q '^OpenSSL [3-9]'; then tool=openssl; fi
	if has signify && signify 2>&1 | grep -q 'signify -V'; then tool=signify; fi
	if has signify-openbsd; then tool=signify-openbsd; fi
	if has minisign; then tool=minisign; fi
}

# signed_by KEY FILE: is FILE.minisig over FILE by the minisign key?
signed_by() {
	case $tool in
	minisign) minisign -Vqm "$2" -x "$2.minisig" -P "$1" ;;
	openssl)
		{
			printf '\060\052\060\005\006\003\053\145\160\003\041\000'
			printf '%s\n' "$1" | openssl base64 -d -A | dd bs=1 skip=10 count=32
		} >"$stage/key.der" 2>/dev/null
		sed -n 2p "$2.minisig" | openssl base64 -d -A 2>/dev/null | dd bs=1 skip=10 count=64 >"$stage/raw" 2>/dev/null
		openssl pkeyutl -verify -pubin -keyform DER -inkey "$stage/key.der" -rawin -in "$2" -sigfile "$stage/raw"
		;;
	*)
		printf 'untrusted comment: minisign public key\n%s\n' "$1" >"$stage/key.pub"
		head -n 2 "$2.minisig" >"$stage/sig"
		"$tool" -Vq -p "$stage/key.pub" -x "$stage/sig" -m "$2"
		;;
	esac >/dev/null 2>&1
}

# fetch_signed PATH FILE: with its signature, by any of the release's keys, or not at all.
fetch_signed() {
	fetch "$1" "$2" 64
	fetch "$1.minisig" "$2.minisig" 4
	for key in $release_keys; do
		signed_by "$key" "$2" && return 0
	done
	die 1 "$1: no signature of the release's key (checked with $tool): refused, nothing was installed"
}

# sum_of PATH: the hash that standard input, lines "HASH  PATH", has for it.
sum_of() { awk -v path="$1" '$2 == path && length($1) == 64 { print $1; exit }'; }

# Which version, and the path of the program in the tree. A script knows its own; another channel's latest is asked for.
choose_version() {
	channel=${channel:-$release_channel}
	if [ -z "$version" ] && [ "$channel" = "$release_channel" ]; then
		version=$release_version
	elif [ -z "$version" ]; then
		[ -n "$tool" ] || die 1 "--channel $channel needs minisign, signify or OpenSSL 3 to check what is its latest version"
		if [ "$dry_run" = 1 ]; then
			version=LATEST
		else
			make_stage
			fetch_signed "$channel/LATEST" "$stage/LATEST"
			version=$(awk -v channel="$channel" 'NR == 1 && $1 == "tracer" && $2 == channel { print $3 }' "$stage/LATEST")
			word "version of $channel" "$version" '.+-'
			[ -n "$version" ] || die 1 "$channel/LATEST names no version of $channel"
		fi
	fi
	path=$channel/$version/tracer-$machine
	target=$lib/versions/$version/tracer
	pinned=$(printf '%s\n' "$release_sums" | sum_of "$path")
	[ -n "$pinned" ] || [ -n "$tool" ] ||
		die 1 "$path is not pinned in this script: install minisign, signify or OpenSSL 3, or take the install.sh of that version"
	[ -n "$pinned" ] || [ "$version" != "$release_version" ] || [ "$channel" != "$release_channel" ] ||
		die 3 "there is no build of $version for $machine"
}

# Is the version there, as it was verified? Its sums stay beside it: root wrote them after the check.
is_there() {
	[ -x "$target" ] || return 1
	there=$pinned
	[ -n "$there" ] || there=$(sum_of "$path" <"$lib/versions/$version/SHA256SUMS" 2>/dev/null) || return 1
	[ -n "$there" ] && [ "$(hash_of "$target")" = "$there" ]
}

# Downloads into the stage and verifies. Nothing of it was executed when this returns.
fetch_program() {
	make_stage
	expected=$pinned
	if [ -n "$tool" ]; then
		fetch_signed "$channel/$version/SHA256SUMS" "$stage/SHA256SUMS"
		expected=$(sum_of "$path" <"$stage/SHA256SUMS")
		[ -n "$expected" ] || die 1 "the signed SHA256SUMS of $version has no $path: refused"
		[ -z "$pinned" ] || [ "$pinned" = "$expected" ] ||
			die 1 "$path: the signed hash is not the one pinned in this script: refused, nothing was installed"
	fi
	fetch "$path" "$stage/tracer" 65536
	[ "$(hash_of "$stage/tracer")" = "$expected" ] ||
		die 1 "$path: its sha256 is not the release's: refused, nothing was installed"
	say "verified $path by ${tool:-the sha256 in this script}"
	chmod 755 "$stage/tracer"
	label "$stage/tracer"
	ran=$("$stage/tracer" version 2>&1) || die 3 "$stage/tracer does not run here (is $prefix mounted noexec?): $ran"
	case $ran in "tracer $version "*) ;; *) die 1 "the program says it is \"$ran\", not $version: refused" ;; esac
}

# ---- files ------------------------------------------------------------------------------------------------
# The folder of everything. Where it has to make parents, it notes the first of them inside, and all appear in one rename.
make_lib() {
	if [ ! -d "$lib" ]; then
		top=$lib
		while [ ! -d "${top%/*}/" ]; do top=${top%/*}; done
		new=${top%/*}/.tracer-new.$$
		mkdir -p "$new${lib#"$top"}" || die 3 "cannot write below $prefix"
		[ "$top" = "$lib" ] || printf '%s\n' "$top" >"$new${lib#"$top"}/made"
		# Another run may have been first: then this one's lands inside.
		mv "$new" "$top" 2>/dev/null && rm -rf "${top:?}/${new##*/}"
	fi
	[ -w "$lib" ] || die 3 "cannot write to $lib"
	# Released by the kernel when this shell ends, however. The shells of Korn close it unless it is named again.
	exec 9>>"$lib/lock"
	! has flock || flock -n 9 9>&9 || die 1 "another installation is at work on $lib"
	remove_leftovers
}

# What a run that was killed left.
remove_leftovers() {
	up=$lib
	while [ -n "$up" ]; do
		for each in "$up"/.tracer-new.* "$up"/.*.tracer-new "$lib/stage"; do [ ! -e "$each" ] || rm -rf "$each"; done
		up=${up%/*}
	done
}

make_stage() {
	[ -z "$stage" ] || return 0
	stage=$lib/stage
	(umask 077 && mkdir "$stage") || die 3 "cannot write to $lib"
	trap 'rm -rf "$lib/stage"' EXIT
	trap 'exit 1' HUP INT TERM
}

# made_dir DIR: makes one, and notes for the removal that it was not there.
made_dir() { [ -d "$1" ] || { printf '%s\n' "$1" >>"$lib/made" && mkdir -p "$1"; }; }

# label FILE: the SELinux one of its place.
label() { ! has restorecon || restorecon -F "$1" 2>/dev/null || :; }

# put FILE MODE TEXT: the file holds that text and has that mode; whole or not at all.
put() {
	case $2 in 600) put_mode=-rw------- ;; 755) put_mode=-rwxr-xr-x ;; *) put_mode=-rw-r--r-- ;; esac
	if [ -f "$1" ] && [ "$(cat "$1")" = "$3" ]; then
		case $(ls -ld "$1") in $put_mode*) return 1 ;; esac
	fi
	change "write $1" || return 1
	put_new=${1%/*}/.${1##*/}.tracer-new
	{ (umask 077 && printf '%s\n' "$3" >"$put_new") && chmod "$2" "$put_new" && mv -f "$put_new" "$1"; } || die 1 "cannot write $1"
	label "$1"
}

# link NAME TARGET: a symbolic link, replaced in one rename.
link() {
	[ "$(readlink "$1" 2>/dev/null)" = "$2" ] && return 0
	[ -L "$1" ] || [ ! -e "$1" ] || die 1 "$1 is there and is not from this installer: move it away first"
	change "link $1 to $2" || return 0
	link_new=${1%/*}/.${1##*/}.tracer-new
	{ ln -sf "$2" "$link_new" && mv -f "$link_new" "$1"; } || die 1 "cannot link $1"
}

install_program() {
	# The updater may have gone further than this script: only a version that was asked for goes back.
	current=$(readlink "$lib/current" 2>/dev/null || :)
	previous=${current#versions/} previous=${previous%/tracer}
	if [ -z "$asked" ] && [ -n "$previous" ] && [ -x "$lib/current" ] && is_newer "$previous" "$version"; then
		say "$previous is installed, which is newer than $version: it stays"
		version=$previous target=$lib/versions/$previous/tracer
		return 0
	fi
	if is_there; then
		say "$version is there already"
	elif change "install $version from ${offline:-$url} to $target"; then
		fetch_program
		mkdir -p "$lib/versions/$version"
		[ ! -f "$stage/SHA256SUMS" ] || mv -f "$stage/SHA256SUMS" "$lib/versions/$version/SHA256SUMS"
		mv -f "$stage/tracer" "$target"
		fresh=1
	fi
	[ "$dry_run" = 1 ] || made_dir "$prefix/bin"
	link "$lib/current" "versions/$version/tracer"
	link "$prefix/bin/tracer" "$lib/current"
	# Two versions at most: this one, and the one before for a way back.
	[ "$fresh" = 0 ] || for old in "$lib/versions"/*; do
		case ${old##*/} in "$version" | "$previous") ;; *) rm -rf "$old" ;; esac
	done
}

# is_newer A B: dotted numbers; what follows a dash comes before the version without it.
is_newer() {
	printf '%s\n%s\n' "$1" "$2" | awk '
		{ split($0, half, "-"); n = split(half[1], part, "."); for (i = 1; i <= 4; i++) v[NR, i] = i <= n ? part[i] + 0 : 0
		  v[NR, 5] = $0 ~ /-/ ? 0 : 1 }
		END { for (i = 1; i <= 5; i++) if (v[1, i] != v[2, i]) exit !(v[1, i] > v[2, i]); exit 1 }'
}

# ---- user, configuration, service -----------------------------------------------------------------------
known() { if has getent; then getent "$1" "$2" >/dev/null; else grep -q "^$2:" "/etc/$1"; fi; } # passwd|group NAME

make_user() {
	known passwd "$user" && return 0
	has useradd || has adduser || { warn "no useradd, no adduser: what talks to the network runs under a number nobody has" && return 0; }
	change "make the user $user, without rights" || return 0
	printf '%s\n' "$user" >"$lib/user"
	for shell in /usr/sbin/nologin /sbin/nologin /bin/false; do [ ! -x "$shell" ] || break; done
	if has useradd; then
		{ known group "$user" || groupadd --system "$user"; } &&
			useradd --system --gid "$user" --no-create-home --home-dir /nonexistent --shell "$shell" "$user"
	else
		{ known group "$user" || addgroup -S "$user"; } &&
			adduser -S -D -H -h /nonexistent -s "$shell" -G "$user" "$user"
	fi </dev/null || die 1 "cannot make the user $user"
}

config_text() {
	printf '# Made by install.sh, which replaces this file while this line stands.\nstream:\n  user: "%s"\n' "$user"
	[ -z "$endpoint" ] || printf '  url: "%s"\n' "$endpoint"
	[ -z "$pin" ] || printf '  pin: ["%s"]\n' "$pin"
	[ -z "$proxy" ] || printf '  proxy: "%s"\n' "$proxy"
}

configure() {
	[ -n "$config_asked" ] || return 0
	if [ ! -d /etc/tracer ] && change "make /etc/tracer"; then mkdir -p /etc/tracer; fi
	if [ -n "$token_file" ] && put /etc/tracer/token 600 "$(cat "$token_file")"; then restart=1; fi
	[ "$config_asked" != "$token_file" ] || return 0
	if [ -f /etc/tracer/tracer.yaml ] && ! grep -q '^# Made by install.sh' /etc/tracer/tracer.yaml; then
		warn "/etc/tracer/tracer.yaml is yours and stays as it is: set stream.url and its like there"
	elif put /etc/tracer/tracer.yaml 644 "$(config_text)"; then
		restart=1
		"$target" collect --print-config >/dev/null || die 1 "/etc/tracer/tracer.yaml is refused"
	fi
}

find_init() {
	[ -z "$init" ] || return 0
	init=none
	if [ -d /run/systemd/system ]; then
		init=systemd
	elif [ -d /run/openrc ] && has rc-update; then
		init=openrc
	elif [ "$image" = 1 ] || [ "$(cat /proc/1/comm 2>/dev/null)" = init ]; then
		if [ -d /etc/init.d ] && { has update-rc.d || has chkconfig; }; then init=sysv; fi
		if has systemctl; then init=systemd; elif has rc-update; then init=openrc; fi
	fi
}

# service_file NAME FILE MODE: the program holds the files of its services.
service_file() {
	[ "$dry_run" = 0 ] || [ -x "$target" ] || change "write $2" || return 0
	text=$("$target" service "$1" --prefix "$prefix" --user "$user") || die 1 "$target has no service file $1"
	if put "$2" "$3" "$text"; then restart=1; fi
}

make_service() {
	service_file supervise "$lib/supervise" 755
	case $init in
	systemd)
		for unit in $units; do service_file "$unit" "/etc/systemd/system/$unit" 644; done
		for each in multi-user.target.wants/tracer.service timers.target.wants/tracer-update.timer; do
			[ -e "/etc/systemd/system/$each" ] || ! change "enable ${each#*/}" ||
				systemctl --quiet enable "${each#*/}" || die 1 "systemctl cannot enable ${each#*/}"
		done
		;;
	openrc)
		service_file openrc /etc/init.d/tracer 755
		[ -e /etc/runlevels/default/tracer ] || ! change "enable tracer in the default runlevel" ||
			rc-update -q add tracer default || die 1 "rc-update cannot add tracer"
		;;
	sysv)
		service_file sysv /etc/init.d/tracer 755
		set -- /etc/rc*.d/S*tracer /etc/rc.d/rc*.d/S*tracer
		if [ ! -e "$1" ] && [ ! -e "$2" ] && change "enable /etc/init.d/tracer"; then
			if has update-rc.d; then update-rc.d tracer defaults; else chkconfig --add tracer; fi ||
				die 1 "cannot enable /etc/init.d/tracer"
		fi
		;;
	esac
}

is_running() {
	case $init in
	systemd) systemctl --quiet is-active tracer.service ;;
	openrc) rc-service -q tracer status >/dev/null 2>&1 ;;
	*) "$lib/supervise" status >/dev/null 2>&1 ;;
	esac
}

start_service() {
	if [ "$image" = 1 ]; then
		[ "$dry_run" = 1 ] || "$target" image prepare || die 1 "the image still holds an identity"
		return 0
	fi
	[ "$no_start" = 0 ] || return 0
	verb=start
	if [ "$dry_run" = 0 ] && is_running; then
		[ "$restart" = 1 ] || return 0
		verb=restart
	fi
	change "$verb the service ($init)" || return 0
	case $init in
	systemd) systemctl daemon-reload && systemctl "$verb" tracer.service && systemctl start tracer-update.timer ;;
	openrc) rc-service tracer "$verb" 9>&- ;;
	*) "$lib/supervise" "$verb" 9>&- ;;
	esac </dev/null || die 1 "the service does not start; see: journalctl -u tracer, or /var/log/tracer.log"
	for waited in 0 1 1 1 1 2 2 2; do
		sleep "$waited"
		answer=0
		"$target" status >/dev/null 2>&1 || answer=$?
		[ "$answer" -gt 1 ] || return 0
	done
	die 1 "the service was started and does not answer; see: journalctl -u tracer, or /var/log/tracer.log"
}

# ---- removal ---------------------------------------------------------------------------------------------
# gone PATH...: removes what is there.
gone() {
	for each in "$@"; do
		[ -e "$each" ] || [ -L "$each" ] || continue
		if change "remove $each"; then rm -rf "$each"; fi
	done
}

stop_services() {
	for unit in $units; do
		if [ -f "/etc/systemd/system/$unit" ] && has systemctl && change "stop and disable $unit"; then
			[ ! -d /run/systemd/system ] || systemctl --quiet stop "$unit" || :
			systemctl --quiet disable "$unit" 2>/dev/null || :
		fi
	done
	if [ -f /etc/init.d/tracer ] && change "stop and disable /etc/init.d/tracer"; then
		/etc/init.d/tracer stop >/dev/null 2>&1 </dev/null || :
		! has rc-update || rc-update -q del tracer default || :
		! has chkconfig || chkconfig --del tracer || :
		rm -f /etc/init.d/tracer # before update-rc.d, which minds it
		! has update-rc.d || update-rc.d tracer remove || :
	fi
	if [ -x "$lib/supervise" ] && "$lib/supervise" status >/dev/null 2>&1 && change "stop the collector"; then
		"$lib/supervise" stop </dev/null || die 1 "the collector does not stop"
	fi
}

remove_user() {
	made=$(cat "$lib/user" 2>/dev/null) || return 0
	{ known passwd "$made" || known group "$made" || grep -qs "^$made:" /etc/shadow /etc/gshadow; } || return 0
	change "remove the user $made" || return 0
	if has userdel; then del=userdel group_del=groupdel; else del=deluser group_del=delgroup; fi
	! known passwd "$made" || "$del" "$made" || die 1 "cannot remove the user $made"
	! known group "$made" || "$group_del" "$made" || die 1 "cannot remove the group $made"
	# A tool that was killed between its files leaves half of an entry.
	! grep -qs "^$made:" /etc/shadow || ! has pwconv || pwconv
	! grep -qs "^$made:" /etc/gshadow || ! has grpconv || grpconv
}

# drop DIR: removes a folder that this installer made, or that lies in one, when nothing else is in it.
drop() {
	for each in $directories; do
		case $1/ in "$each"/*) [ "$dry_run" = 0 ] && rmdir "$1" 2>/dev/null && return 0 ;; esac
	done
	return 1
}

remove() {
	if [ "$root" = 1 ]; then
		stop_services
		[ "$dry_run" = 1 ] || rm -f /etc/systemd/system/.tracer*.tracer-new /etc/init.d/.tracer.tracer-new /etc/tracer/.*.tracer-new
		for unit in $units; do gone "/etc/systemd/system/$unit"; done
		gone /etc/init.d/tracer /run/tracer /var/log/tracer.log /var/log/tracer.log.1 /sys/fs/bpf/tracer
		[ "$dry_run" = 1 ] || [ ! -d /run/systemd/system ] || systemctl daemon-reload
		[ "$purge" = 0 ] || gone /etc/tracer /var/lib/tracer
		if [ -e /etc/tracer ] || [ -e /var/lib/tracer ]; then
			say "/etc/tracer and /var/lib/tracer stay, and the user $user; --purge removes them"
		else
			remove_user
		fi
	fi
	[ "$(readlink "$prefix/bin/tracer" 2>/dev/null)" != "$lib/current" ] || gone "$prefix/bin/tracer"
	[ "$dry_run" = 1 ] || rm -f "$prefix/bin/.tracer.tracer-new"
	directories=$(cat "$lib/made" 2>/dev/null || :)
	gone "$lib"
	drop "$prefix/bin" || :
	[ "$dry_run" = 1 ] || remove_leftovers
	up=$prefix/lib
	while [ -n "$up" ] && drop "$up"; do up=${up%/*}; done
	[ "$changed" = 1 ] || say "nothing of Tracer is here"
}

# ---- the order of things ---------------------------------------------------------------------------------
main() {
	set -eu
	umask 022
	export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin:/usr/bin:/bin"
	defaults
	arguments "$@"
	check_arguments
	check_machine
	[ "$uninstall" = 0 ] || { remove; exit 0; }
	restart=0 fresh=0 asked=${version:+1}${channel:+1}
	find_tool
	[ "$dry_run" = 1 ] || make_lib
	choose_version
	install_program
	restart=$changed
	if [ "$root" = 1 ]; then
		find_init
		make_user
		configure
		make_service
		start_service
	fi
	if [ "$dry_run" = 1 ]; then say "this was a dry run: nothing was written"
	elif [ "$changed" = 0 ]; then say "$version is installed; nothing had to change"
	else say "done: $("$target" version)"
	fi
	[ "$root" = 1 ] || say "the program alone: $prefix/bin/tracer"
	[ "$root" = 0 ] || [ "$image$no_start" = 00 ] || say "the service is not started now"
}

main "$@"; }

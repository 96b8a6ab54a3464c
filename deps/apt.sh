#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sourced, not run: a private apt, with its own lists and cache, made from this machine's own apt
# configuration: the same hosts and proxies, another suite. So no host name stands in the repository,
# apt's signatures hold, and the machine's own apt state stays as it is.
#
#   apt_setup DIR TYPE SUITE [ARCHITECTURE]    TYPE deb or deb-src; writes DIR/apt.conf and fetches the signed index
#   apt_private DIR TOOL ARG... runs apt-get or apt-cache with it

# Prints "URI main" or "URI security" for each Debian archive this machine is configured with.
apt_archives() {
	local uri release component
	# shellcheck disable=SC2016  # apt-get expands these
	apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Identifier: Packages' |
		while read -r uri release component; do
			[ "$component" = main ] || continue
			case $release in
			bookworm | trixie | forky | stable | oldstable | sid | unstable) printf '%s main\n' "$uri" ;;
			bookworm-security | trixie-security | forky-security | stable-security | oldstable-security)
				printf '%s security\n' "$uri" ;;
			esac
		done | awk '!seen[$0]++'
}

apt_private() {
	local dir=$1 tool=$2
	shift 2
	"$tool" -c "$dir/apt.conf" -qq "$@"
}

apt_setup() {
	local dir=$1 type=$2 suite=$3 architecture=${4:-} keyring='' f uri kind try
	mkdir -p "$dir"/{state/lists/partial,cache/archives/partial,sources,none}
	dir=$(cd "$dir" && pwd)
	for f in /usr/share/keyrings/debian-archive-keyring.pgp /usr/share/keyrings/debian-archive-keyring.gpg; do
		if [ -r "$f" ]; then
			keyring=" [signed-by=$f]"
			break
		fi
	done
	apt_archives | while read -r uri kind; do
		case $kind in
		main)
			printf '%s%s %s %s main\n' "$type" "$keyring" "$uri" "$suite"
			case $suite in sid | *-backports) ;; *) printf '%s%s %s %s-updates main\n' "$type" "$keyring" "$uri" "$suite" ;; esac
			;;
		security)
			case $suite in sid | *-backports) ;; *) printf '%s%s %s %s-security main\n' "$type" "$keyring" "$uri" "$suite" ;; esac
			;;
		esac
	done >"$dir/sources/tracer.list"
	if ! [ -s "$dir/sources/tracer.list" ]; then
		echo "apt: this machine's apt configuration names no Debian 12 or 13 archive" >&2
		return 1
	fi
	cat >"$dir/apt.conf" <<-EOF
		#clear APT::Update::Post-Invoke;
		#clear APT::Update::Post-Invoke-Success;
		Dir::State "$dir/state";
		Dir::State::status "/var/lib/dpkg/status";
		Dir::Cache "$dir/cache";
		Dir::Etc::sourcelist "/dev/null";
		Dir::Etc::sourceparts "$dir/sources";
		Dir::Etc::preferences "/dev/null";
		Dir::Etc::preferencesparts "$dir/none";
		APT::Sandbox::User "";
		APT::Default-Release "";
		Acquire::Languages "none";
		Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
		Acquire::Retries "3";
	EOF
	# Packages of another machine: none of this one's count as installed.
	[ -z "$architecture" ] || cat >>"$dir/apt.conf" <<-EOF
		#clear APT::Architectures;
		APT::Architecture "$architecture";
		APT::Architectures { "$architecture"; };
		Dir::State::status "/dev/null";
	EOF
	# The network is not always there at the first try.
	for try in 1 2 3; do
		apt_private "$dir" apt-get update >"$dir/update.log" 2>&1 && return 0
		[ "$try" = 3 ] || sleep 2
	done
	cat "$dir/update.log" >&2
	echo "apt: no index of Debian $suite" >&2
	return 1
}

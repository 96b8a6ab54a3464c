#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Shows that the gate after the link refuses a binary that breaks each of its rules.
set -eu
cd "$(dirname "$0")/../.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cases=0

printf 'int main(int c, char **v) { char b[64]; for (int i = 0; i < c; i++) b[i] = v[i][0]; return b[0]; }\n' >"$dir/m.c"

# refused WHY FLAGS...: builds with FLAGS and expects the gate to say WHY.
refused() {
	why=$1
	shift
	"${CC:-gcc}" -o "$dir/m" "$dir/m.c" "$@" 2>/dev/null
	if said=$(tools/check_binary.sh "$dir/m" "$dir/m" 2>&1); then
		printf 'gate: let through a binary built with: %s\n' "$*"
		exit 1
	fi
	case $said in
	*"$why"*) cases=$((cases + 1)) ;;
	*) printf 'gate: %s: said "%s", not "%s"\n' "$*" "$said" "$why"; exit 1 ;;
	esac
}

refused 'INTERP' -pie -fPIE
refused 'not a position-independent' -static -no-pie
refused 'no RELRO' -static-pie -fPIE -Wl,-z,norelro
refused 'NEEDED' -shared -fPIC -Wl,--no-as-needed
refused 'not bound at start' -static-pie -fPIE -Wl,-z,relro,-z,lazy
refused 'executable stack' -static-pie -fPIE -Wl,-z,relro,-z,now,-z,execstack
printf 'int x; int *const p = &x; void _start(void) { for (;;) *p = 1; }\n' >"$dir/m.c"
refused 'no stack protector' -static-pie -fPIE -nostdlib -nostartfiles -fno-stack-protector -Wl,-z,relro,-z,now
printf 'int main(void) { return 0; }\n' >"$dir/m.c"
printf 'char big[8 << 20] = {1};\n' >>"$dir/m.c"
refused 'the limit is' -static-pie -fPIE -fstack-protector-all -Wl,-z,relro,-z,now
printf 'gate: %d cases passed\n' "$cases"

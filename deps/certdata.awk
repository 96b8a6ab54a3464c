# SPDX-License-Identifier: Apache-2.0
# Mozilla's certdata.txt (of the ca-certificates source) to a bundle of PEM certificates: those trusted to issue for
# TLS servers. A certificate object comes just before its trust object.
BEGIN { alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/" }

function octal(text) { return substr(text, 1, 1) * 64 + substr(text, 2, 1) * 8 + substr(text, 3, 1) }
function letter(value) { return substr(alphabet, value + 1, 1) }

function print_pem(   i, a, b, c, line) {
	print "-----BEGIN CERTIFICATE-----"
	line = ""
	for (i = 1; i <= bytes; i += 3) {
		a = byte[i]
		b = i + 1 <= bytes ? byte[i + 1] : 0
		c = i + 2 <= bytes ? byte[i + 2] : 0
		line = line letter(int(a / 4)) letter(a % 4 * 16 + int(b / 16)) \
			(i + 1 <= bytes ? letter(b % 16 * 4 + int(c / 64)) : "=") (i + 2 <= bytes ? letter(c % 64) : "=")
		if (length(line) == 64) {
			print line
			line = ""
		}
	}
	if (line != "")
		print line
	print "-----END CERTIFICATE-----"
}

/^CKA_LABEL / { label = $0 }
/^CKA_VALUE MULTILINE_OCTAL/ { reading = 1; bytes = 0; of = label; next }
reading && /^END/ { reading = 0; next }
reading {
	count = split($0, part, "\\")
	for (i = 2; i <= count; i++)
		byte[++bytes] = octal(part[i])
	next
}
/^CKA_TRUST_SERVER_AUTH CK_TRUST CKT_NSS_TRUSTED_DELEGATOR/ && bytes && of == label { print_pem(); written++ }
END {
	if (written < 50) {
		print "certdata.awk: only " written + 0 " certificates found" > "/dev/stderr"
		exit 1
	}
}

// SPDX-License-Identifier: Apache-2.0
// Test room: attribute FILE NAME [VALUE] prints an extended attribute, or sets it; for a guest that has no tool for it.
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

int main(int argc, char **argv)
{
	char value[256];
	ssize_t length;

	if (argc == 4 && setxattr(argv[1], argv[2], argv[3], strlen(argv[3]) + 1, 0)) {
		perror(argv[1]);
		return 1;
	}
	if (argc == 4)
		return 0;
	length = argc == 3 ? getxattr(argv[1], argv[2], value, sizeof(value) - 1) : -1;
	if (length < 0) {
		perror("attribute");
		return 1;
	}
	value[length] = 0;
	puts(value);
	return 0;
}

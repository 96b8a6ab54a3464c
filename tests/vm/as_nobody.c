// SPDX-License-Identifier: Apache-2.0
// Test room: runs a command as uid and gid 65534 without any capability, in a guest that has no su.
#include <grp.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 2 || setgroups(0, NULL) || setgid(65534) || setuid(65534)) {
		perror("as_nobody");
		return 125;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}

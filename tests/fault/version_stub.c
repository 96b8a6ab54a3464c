// SPDX-License-Identifier: Apache-2.0
// Stands for a version of the program where hundreds of them are started: small, static, and whole or not at all. The
// test makes versions out of it by what it puts behind the end of the file.
#include <stdio.h>

int main(void)
{
	return puts("tracer stub") < 0;
}

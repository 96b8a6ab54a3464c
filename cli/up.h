// SPDX-License-Identifier: Apache-2.0
// Between the files of `tracer up`: its children and where their things lie.
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/base/buf.h"
#include "core/base/loop.h"

enum { UP_WORDS_MAX = 48, UP_PATH_SIZE = 512 };

// A command line of this same program; the words are borrowed.
struct up_words {
	char *list[UP_WORDS_MAX];
	size_t count;
};

struct up {
	const char *listen, *config, *log_level;
	bool demo;
	char store[UP_PATH_SIZE], lake[UP_PATH_SIZE], spool[UP_PATH_SIZE], token_file[UP_PATH_SIZE], url[UP_PATH_SIZE];
	char socket[UP_PATH_SIZE], processes_socket[UP_PATH_SIZE]; // empty: the usual ones
	char directory[UP_PATH_SIZE]; // empty: the usual places
	struct loop *loop;
	pid_t datalake, collect;
	pid_t collect_group; // the collector and who streams for it // 0: does not run
	int input; // what the next child reads; -1: what we do
	bool interrupted;
	bool stopping;
	int code;
};

void up_word(struct up_words *words, const char *text);

// Starts it, in a process group of its own so that a terminal's Ctrl-C is ours to pass on. output: what its standard
// output becomes; -1: as ours. 0 or -errno.
int up_start(struct up *up, struct up_words *words, int output, pid_t *ret_pid);

// Runs it to its end; what it prints is appended to out (NULL: printed). Its exit code, or -errno.
int up_run(struct up *up, struct up_words *words, struct buf *out);

// up_demo.c: runs the pipeline that is built in, waits until all of it has arrived, prints its report from there.
// An exit code.
int up_demo(struct up *up);

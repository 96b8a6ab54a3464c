// SPDX-License-Identifier: Apache-2.0
// The collector's parent: the process a service manager watches. It keeps the rights to start an image and does nothing
// else: it starts the collector, starts the next image when asked to (SIGUSR2), brings the two together, and ends as
// the collector ends. It reads no file, parses no text, has no socket but the pairs that join it with its own children.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum warden_kind {
	WARDEN_REQUEST = 1, // image: start the next one
	WARDEN_READY, // next image: it runs; bring it together with the one before
	WARDEN_REFUSED, // next image: it cannot take over; text says why
	WARDEN_DONE, // image: the next one has everything, this one ends
	WARDEN_KILL, // image: the next one did not answer
	WARDEN_RESTART, // image: cannot be handed over; start the next one once this one has ended
	WARDEN_PEER, // to both images: a socket to the other
	WARDEN_FAILED, // to the image: the next one is gone; text says why
};

enum { WARDEN_VERSION = 1, WARDEN_TEXT_SIZE = 240 };

struct warden_message {
	uint32_t version, kind;
	char text[WARDEN_TEXT_SIZE];
};

// An image's side.
struct warden_link {
	int fd; // -1: no parent
	pid_t main_pid; // the parent
	bool next; // started while another collector runs, to take its place
};

// First of all, with the arguments of the subcommand as they came: they are kept for the next image. True: this is the
// parent, started anew after it changed images; everything is over and *ret_code is how.
bool warden_resume(int argc, char **argv, int *ret_code);
// Once, when arguments and configuration were found good and before anything is opened. True: this is the parent, and
// as above. False: this is an image and *ret_link is set; without a parent where none could be made.
bool warden_begin(struct warden_link *ret_link, int *ret_code);

// 0 or -errno. text may be NULL. Never blocks.
int warden_send(const struct warden_link *link, enum warden_kind kind, const char *text);
// A message of the parent; *ret_fd is -1 where none came with it. timeout_ms as in poll(2). -EAGAIN: none came.
// -EPIPE: the parent is gone.
int warden_receive(const struct warden_link *link, int timeout_ms, struct warden_message *ret_message, int *ret_fd);

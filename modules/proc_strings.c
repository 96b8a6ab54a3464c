// SPDX-License-Identifier: Apache-2.0
// Strings behind the fixed part of a lifecycle record. Nothing is trusted: lengths are summed against the record's
// size, every string must end inside its own part.
#include "modules/proc_strings.h"

#include <errno.h>
#include <string.h>

// Components from leaf to root, each with its NUL, become "/root/.../leaf". ret_path has size + 2 bytes.
static int path_turn(const char *components, size_t size, char *ret_path)
{
	char *out = ret_path;

	if (size && components[size - 1])
		return -EBADMSG;
	if (!size)
		*out++ = '/';
	for (size_t end = size; end > 0;) {
		size_t start = end - 1;

		while (start > 0 && components[start - 1])
			start--;
		*out++ = '/';
		memcpy(out, components + start, end - 1 - start);
		out += end - 1 - start;
		end = start;
	}
	*out = '\0';
	return 0;
}

static const char *text_part(const char *text, size_t size)
{
	return size && !text[size - 1] ? text : NULL;
}

int proc_strings_exec(const struct event_exec *event, struct proc_strings *ret_strings)
{
	const char *exe = (const char *)(event + 1);
	const char *cwd = exe + event->exe_size;
	const char *filename = cwd + event->cwd_size;
	const char *interp = filename + event->filename_size;
	const char *args = interp + event->interp_size;
	size_t size = (size_t)event->exe_size + event->cwd_size + event->filename_size + event->interp_size;
	struct image_strings *image = &ret_strings->image;
	char *exe_path = ret_strings->text;
	char *cwd_path = ret_strings->text + sizeof(ret_strings->text) / 2;

	if (event->args_size > PROC_ARGS_MAX || size + event->args_size > event->header.size - sizeof(*event) ||
	    event->exe_size + 2u > sizeof(ret_strings->text) / 2 ||
	    event->cwd_size + 2u > sizeof(ret_strings->text) / 2)
		return -EBADMSG;
	if (path_turn(exe, event->exe_size, exe_path) || path_turn(cwd, event->cwd_size, cwd_path))
		return -EBADMSG;
	*image = (struct image_strings){
		.exe = exe_path,
		.cwd = cwd_path,
		.args = args,
		.args_size = event->args_size,
		.args_total = event->args_total,
	};
	if (event->interp_size) {
		image->script = text_part(filename, event->filename_size);
		image->interpreter = text_part(interp, event->interp_size);
	}
	return 0;
}

int proc_strings_exit_cwd(const struct event_exit *event, struct process *process)
{
	const char *components = (const char *)(event + 1) + event->identity_size;
	const struct image *image = process->image;
	char path[PROC_STRINGS_SIZE / 2];

	if (event->cwd_size + 2u > sizeof(path) ||
	    event->cwd_size > event->header.size - sizeof(*event) - event->identity_size ||
	    path_turn(components, event->cwd_size, path))
		return -EBADMSG;
	if (image->cwd && !strcmp(image->cwd, path))
		return 0;
	return process_set_strings(process, &(struct image_strings){
						    .exe = image->exe,
						    .script = image->script,
						    .interpreter = image->interpreter,
						    .cwd = path,
						    .args = image->args,
						    .args_size = image->args_size,
						    .args_total = image->args_total,
					    });
}

// SPDX-License-Identifier: Apache-2.0
// One line per message on standard error: time, level, text. Only callers at the top of a room log; library code
// returns negative errno. A message past 2 KiB is cut and ends in "...". Secrets and process arguments are never
// logged.
#pragma once

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

// Sets the least severe level that is still written. Default: LOG_LEVEL_INFO.
void log_set_level(enum log_level level);

// "error", "warn", "info", "debug" to a level; -EINVAL for anything else.
int log_level_parse(const char *text, enum log_level *ret_level);

__attribute__((format(printf, 2, 3))) void log_write(enum log_level level, const char *format, ...);

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_write(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

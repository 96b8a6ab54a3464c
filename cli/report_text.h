// SPDX-License-Identifier: Apache-2.0
// A finished report as text for a terminal or a pipe.
#pragma once

#include "cli/ui.h"
#include "core/report.h"

// Writes to ui->out, at ui->width columns, in colour and Unicode where ui says so. 0 or -EIO.
int report_write(struct report *report, const struct ui *ui);

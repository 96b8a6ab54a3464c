# SPDX-License-Identifier: Apache-2.0
"""Lets every test below import tests/harness, whichever way pytest is started."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

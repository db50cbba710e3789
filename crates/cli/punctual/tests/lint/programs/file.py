# SPDX-License-Identifier: MIT OR Apache-2.0
"""Opens, writes and closes a file in each period."""

import os

from loop import HAS_FAULT, run


def step():
    if HAS_FAULT:
        log = os.open("log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        os.write(log, b"x")
        os.close(log)


run(step)

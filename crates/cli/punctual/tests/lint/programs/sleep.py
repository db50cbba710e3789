# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sleeps for a duration with time.sleep."""

import time

from loop import HAS_FAULT, run


def step():
    if HAS_FAULT:
        time.sleep(0.001)


run(step)

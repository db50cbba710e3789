# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints in each period. Standard output is a pipe."""

from loop import HAS_FAULT, run


def step():
    if HAS_FAULT:
        print("x", flush=True)


run(step)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""A loop of 1 ms, as in loop.h: each program has its fault in `step`."""

import ctypes
import gc
import os
import resource
import signal
import sys

NO_RIGHT = 77
PERIOD = 1_000_000
RLIMIT_RTTIME = 15

libc = ctypes.CDLL(None, use_errno=True)


class Time(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("ns", ctypes.c_long)]


def touch_stack(depth):
    """Nests calls of C functions, which use the stack of the thread."""
    return depth and max([depth], key=lambda _: touch_stack(depth - 1))


def begin():
    libc.prctl(1, signal.SIGKILL)
    signal.alarm(60)
    resource.setrlimit(RLIMIT_RTTIME, (1_000_000, 1_000_000))
    os.sched_setaffinity(0, {int(sys.argv[2])})
    gc.disable()
    if libc.mlockall(3):
        sys.exit(NO_RIGHT)
    touch_stack(300)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(20))
    except PermissionError:
        sys.exit(NO_RIGHT)
    print("ready", flush=True)


def run(step):
    begin()
    release = Time()
    libc.clock_gettime(1, ctypes.byref(release))
    pointer = ctypes.byref(release)
    while True:
        step()
        release.ns += PERIOD
        if release.ns >= 1_000_000_000:
            release.ns -= 1_000_000_000
            release.seconds += 1
        libc.clock_nanosleep(1, 1, pointer, None)


HAS_FAULT = sys.argv[1] == "fault"

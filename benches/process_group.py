"""Ends a program that a bench watches, and the processes that it forked."""

import os
import signal


def kill_group(leader):
    """Kills the processes of a group.

    First takes the real-time priority from their threads. Two of them that end at the same time on one
    CPU can otherwise make the kernel spin: the one with the higher priority waits for the other.
    """
    for process in filter(str.isdigit, os.listdir("/proc")):
        demote(int(process), leader)
    os.killpg(leader, signal.SIGKILL)


def demote(process, group):
    """Takes the real-time priority from the threads of a process in this group."""
    try:
        if os.getpgid(process) == group:
            for task in os.listdir(f"/proc/{process}/task"):
                os.sched_setscheduler(int(task), os.SCHED_OTHER, os.sched_param(0))
    except OSError:
        # The process has ended.
        pass

"""The peak memory of a running process."""

import re


def peak_kib(pid):
    """VmHWM in KiB, or None once it is gone.

    Not ru_maxrss: that also counts what was before exec, which is the script's own.
    """
    try:
        with open(f"/proc/{pid}/status") as status:
            found = re.search(r"VmHWM:\s+(\d+)", status.read())
    except OSError:
        return None
    return int(found.group(1)) if found else None

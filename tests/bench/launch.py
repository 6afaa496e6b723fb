"""Runs one command and reports what it used; small, because a child's peak memory starts at that of its launcher."""

import os
import signal
import sys

TIMEOUT_SECONDS = 120


def main() -> None:
    """The last line on stderr is the exit code, the CPU seconds and the peak memory as the system counts it."""
    child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
    signal.signal(signal.SIGALRM, lambda _number, _frame: os.kill(child, signal.SIGKILL))
    signal.alarm(TIMEOUT_SECONDS)
    _, status, usage = os.wait4(child, 0)
    cpu = usage.ru_utime + usage.ru_stime
    sys.stderr.write(f"\n{os.waitstatus_to_exitcode(status)} {cpu:.6f} {usage.ru_maxrss}\n")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""killed_at.py N COMMAND...: runs a program of one thread and kills it at the Nth stop, counted from its first flock(2) on: each system
call is a stop before and one behind it. Between two of them nobody can see what it does, so that these are all the points at
which a death may differ from another. Exit status 0: it was killed there; 1: it ended before; 3: it cannot be traced here."""
import ctypes
import os
import platform
import signal
import sys

TRACEME, CONT_TO_CALL, GET_REGISTERS, SET_OPTIONS, EXIT_KILL = 0, 24, 12, 0x4200, 0x100000
FLOCK, CALL_REGISTER = 73, 15  # of x86-64

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def call_of(pid):
    registers = (ctypes.c_ulonglong * 27)()
    libc.ptrace(GET_REGISTERS, pid, None, ctypes.cast(registers, ctypes.c_void_p))
    return registers[CALL_REGISTER]


def main():
    wanted, command = int(sys.argv[1]), sys.argv[2:]
    if platform.machine() != "x86_64":
        return 3
    pid = os.fork()
    if pid == 0:
        if libc.ptrace(TRACEME, 0, None, None) != 0:
            os._exit(3)
        os.execv(command[0], command)
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    libc.ptrace(SET_OPTIONS, pid, None, EXIT_KILL)
    begun, stops, deliver = False, 0, 0
    while True:
        libc.ptrace(CONT_TO_CALL, pid, None, deliver)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            return 1
        number = os.WSTOPSIG(status)
        deliver = 0 if number == signal.SIGTRAP else number
        begun = begun or call_of(pid) == FLOCK
        stops += begun and deliver == 0
        if stops == wanted:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""run.py PROGRAM [ARGUMENTS]: runs an example and holds its output and exit code against what it should say."""
import subprocess
import sys
from pathlib import Path

MESSAGES = "echoed: message 1\nechoed: message 2\nechoed: message 3\n"
EXPECTED = {
    "example_epoll_echo": MESSAGES + "3 of 3 came back\n",
    "example_poll_wake": MESSAGES.replace("message", "result") + "3 results were sent and came back\n",
    "example_neg_session": "server: QPN 0x13, the peer's 0x12, path MTU 4096\n"
                           "client: QPN 0x12, the peer's 0x13, path MTU 4096\n"
                           "over a stream: QPN 0x14, the peer's 0x15, path MTU 4096\n",
    "example_managers": "6 connections: 3 and 3 established at the workers, 6 ended where they went\n",
    "example_worker_threads": "6 requests went to two threads, which got 3 and 3 messages\n",
    "example_asio_coroutine": MESSAGES + "3 came back\n",
}

LIMIT = 300  # seconds: only a hang takes as long, on a slow machine too

program = Path(sys.argv[1])
done = subprocess.run(sys.argv[1:], capture_output=True, text=True, timeout=LIMIT, check=False)
expected = EXPECTED[program.name]
if (done.returncode, done.stdout, done.stderr) != (0, expected, ""):
    sys.exit(f"{program.name} ended with {done.returncode}\n--- said\n{done.stdout}{done.stderr}--- should say\n{expected}")

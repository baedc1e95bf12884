# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What both guests can do: run programs, switch siw's parameters, disturb the wire.

Guest b (Linux siw and stock rping) serves these calls over TCP, one JSON object per line in each direction; guest a
calls them. Control traffic runs only while the wire is undisturbed, and its port stays out of the captures.
"""
import contextlib
import json
import os
import socket
import subprocess
import sys
import time

CONTROL_PORT = 9
ADDRESS = {"a": {4: "192.0.2.1", 6: "2001:db8::1"}, "b": {4: "192.0.2.2", 6: "2001:db8::2"}}
# netem reorders by sending a share of the packets at once while the others wait, so it needs a delay.
DISTURBANCE = ["delay", "2ms", "loss", "2%", "reorder", "10%"]
TEXT_LIMIT = 4000
KILL_LIMIT_S = 10
ANSWER_LIMIT_S = 180  # of a call: the longest waits 120 s for a program, and then ends it
GONE_S = 90           # a guest of which nothing comes for so long, not even TCP's own answers, is lost
LOOK_LIMIT_S = 20     # for a busy guest to refuse a connection
CLOSED_PORT = 11      # nothing listens there


def ended_well(command, outcome):
    """True if a program of a ping run did its work, whatever rping's own end makes of it.

    Stock rping destroys its event channel while its event thread may still read from it; when the thread loses, a
    server whose client has left in order ends with 255 and these words. All pings were done by then.
    """
    if outcome is None or outcome["status"] is None:
        return False
    if outcome["status"] == 0:
        return True
    text = outcome["text"]
    return command.startswith("rping -s") and "server DISCONNECT EVENT" in text and \
        "rdma_get_cm_event: Bad file descriptor" in text and "failed" not in text


def end_by_force(process):
    """Kills a program. What the kernel does not let go (siw can hold one for ever) is left behind: says so, and where it is."""
    process.kill()
    try:
        process.wait(KILL_LIMIT_S)
        return ""
    except subprocess.TimeoutExpired:
        where = "a place that it does not tell"
        with contextlib.suppress(OSError), open(f"/proc/{process.pid}/stack", encoding="ascii") as stack:
            where = stack.read()
        return f"\nprocess {process.pid} does not end when it is killed; the kernel has it in\n{where}"


def listening(port):
    """True if some socket of this guest, a kernel socket included, listens on the port."""
    want = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as lines:
            for line in lines:
                fields = line.split()
                if fields[1].endswith(want) and fields[3] == "0A":
                    return True
    return False


def reachable(other):
    """Whether the other guest's network answers at all: it has to refuse this connection."""
    try:
        socket.create_connection((ADDRESS[other][4], CLOSED_PORT), LOOK_LIMIT_S).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return True


def bounded(stream):
    """Without this a guest waits a quarter of an hour for the other one where it has sent something, and for ever where not."""
    tcp = socket.IPPROTO_TCP
    for level, option, value in ((tcp, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
                                 (tcp, socket.TCP_KEEPIDLE, GONE_S // 3), (tcp, socket.TCP_KEEPINTVL, GONE_S // 9),
                                 (tcp, socket.TCP_USER_TIMEOUT, GONE_S * 1000)):
        stream.setsockopt(level, option, value)
    return stream


class Guest:
    """The calls. Each takes and returns plain JSON values."""

    def __init__(self):
        self.process = None
        self.output = None

    def siw(self, settings):
        for key, value in settings.items():
            with open(f"/sys/module/siw/parameters/{key}", "w", encoding="ascii") as knob:
                knob.write(str(value))
        return True

    def netem(self, on):
        words = ["replace", "dev", os.environ["NIC"], "root", "netem", *DISTURBANCE] if on else \
                ["delete", "dev", os.environ["NIC"], "root"]
        return subprocess.run(["tc", "qdisc", *words], check=False).returncode == 0

    def start(self, argv, port=None):
        """Starts a program; with a port, waits until something listens there. Returns an error text or None."""
        self.output = open(f"/tmp/output.{time.monotonic_ns()}", "w+b")
        try:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self.output,
                                            stderr=subprocess.STDOUT)
        except OSError as error:
            return f"{argv[0]}: {error.strerror}"
        deadline = time.monotonic() + 15
        while port and not listening(port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                return f"{' '.join(argv)} does not listen on port {port}: {self.finish(1)['text'].strip()}"
            time.sleep(0.02)
        return None

    def finish(self, timeout):
        """Waits for the program, kills it at the time-out. status is None if it had to be killed."""
        begin = time.monotonic()
        status, held = None, ""
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            held = end_by_force(self.process)
        self.output.seek(0)
        text = self.output.read().decode("utf-8", "replace") + held
        self.output.close()
        os.unlink(self.output.name)
        if len(text) > TEXT_LIMIT:
            text = text[:TEXT_LIMIT // 2] + "\n[...]\n" + text[-TEXT_LIMIT // 2:]
        return {"status": status, "text": text, "seconds": time.monotonic() - begin}


class Remote:
    """The same calls, carried out in guest b."""

    def __init__(self, limit=60):
        deadline = time.monotonic() + limit
        while True:
            try:
                self.stream = bounded(socket.create_connection((ADDRESS["b"][4], CONTROL_PORT), 5))
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        self.stream.settimeout(ANSWER_LIMIT_S)
        self.lines = self.stream.makefile("r", encoding="utf-8")

    def __getattr__(self, call):
        def remote(*arguments):
            self.stream.sendall((json.dumps([call, *arguments]) + "\n").encode())
            line = self.lines.readline()
            if not line:
                raise ConnectionError("guest b has closed its control connection")
            answer = json.loads(line)
            if "error" in answer:
                raise RuntimeError(f"guest b: {call}: {answer['error']}")
            return answer["value"]
        return remote


def serve():
    guest = Guest()
    with socket.create_server(("0.0.0.0", CONTROL_PORT)) as server:
        stream, _ = server.accept()
        for line in bounded(stream).makefile("r", encoding="utf-8"):
            call, *arguments = json.loads(line)
            if call == "leave":
                stream.sendall(b'{"value": true}\n')
                return
            try:
                answer = {"value": getattr(guest, call)(*arguments)}
            except Exception as error:  # the caller, not this guest, decides what a failure means
                answer = {"error": f"{type(error).__name__}: {error}"}
            stream.sendall((json.dumps(answer) + "\n").encode())


if __name__ == "__main__":
    sys.exit(serve())

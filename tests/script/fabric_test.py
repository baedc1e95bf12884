# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""A simulated InfiniBand subnet under stock opensm and infiniband-diags: beside ibsim, with faults, with a second subnet manager,
and by Parley's own preload, which has RMPP."""
import fcntl
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import termios

import cli
from fabric_kit import IBSIM_PRELOAD, OWN_PRELOAD, WAIT, FabricTest

FT16, FT648 = "2,8,4,4", "2,36,36,18"
QUEUE_MAX = 16384  # FabricServer::queue_max

# Members of a PathRecord as saquery prints them: octets of the record, so that what shares one is in one.
COMPARED = ("service_id", "dgid", "sgid", "dlid", "slid", "hop_flow_raw", "tclass", "num_path_revers", "pkey", "qos_class", "sl", "mtu",
            "rate", "pkt_life", "preference")


def as_saquery(record):
    """A PathRecord of `parley mad sa --json`, as saquery prints it."""
    def selected(name):
        return f"0x{record[name + '_selector']['value'] << 6 | record[name]['value']:X}"
    flow = record["raw_traffic"] << 31 | int(record["flow_label"], 0) << 8 | record["hop_limit"]
    return {"service_id": record["service_id"], "dgid": record["dgid"], "sgid": record["sgid"], "dlid": str(record["dlid"]),
            "slid": str(record["slid"]), "hop_flow_raw": f"0x{flow:X}", "tclass": f"0x{int(record['traffic_class'], 0):X}",
            "num_path_revers": f"0x{record['reversible'] << 7 | record['num_path']:X}", "pkey": record["p_key"],
            "qos_class": f"0x{record['qos_class']:X}", "sl": f"0x{record['sl']:X}", "mtu": selected("mtu"), "rate": selected("rate"),
            "pkt_life": selected("packet_life_time"), "preference": f"0x{record['preference']:X}"}


class Fabric(FabricTest):
    def test_says_what_is_wrong(self):
        wrong = self.path("wrong.net", b'Switch 8 "A"\n[1] "B"[1]\n')
        done = cli.run("fabric", wrong)
        self.assertEqual(done.code, 3, done)
        self.assertIn("wrong.net:2: there is no node 'B'", done.err)
        for words in (["--fat-tree", "2,8,4"], ["--fat-tree", "2,8,4,9"], ["--torus", "4"], ["--dragonfly", "x,1,1"], [], [wrong, "--torus", "4,1"],
                      ["--fat-tree", FT16, "--loss", "200%"], ["--fat-tree", FT16, "--fault", "lose S0001", "--name", self.name],
                      ["--fat-tree", FT16, "--write", "-", "--check-routes"], ["--fat-tree", FT16, "--write", "-", "--fault", "lose *"],
                      ["--tell", "check-routes", "--loss", "1%"], ["--tell", "check-routes", "--write", "-"]):
            self.assertEqual(cli.run("fabric", *words).code, 2, words)
        self.assertEqual(cli.run("fabric", "--name", self.name, "--tell", "check-routes").code, 3)

    def test_is_the_subnet_that_ibsim_has(self):
        self.compare_with_ibsim(FT16, 64)
        self.compare_with_ibsim(FT648, 2592)

    def test_opensm_routes_it_and_tools_work(self):
        server = self.serve("--fat-tree", FT648)
        process, log = self.opensm("H00000")
        self.wait_for_log(log, "SUBNET UP")
        self.assertIn("SMINFO_MASTER", self.stock("H00001", "sminfo"))
        self.assertIn("NodeType:........................Switch", self.stock("H00001", "smpquery", "nodeinfo", "-D", "0,1"))
        self.assertIn("PortXmitPkts:", self.stock("H00002", "perfquery"))
        self.assertIn("NodeDescription.........H00000", self.stock("H00001", "saquery", "NR"))
        self.assertIn("State: Active", self.stock("H00001", "ibstat"))
        process.send_signal(signal.SIGINT)
        process.wait(timeout=WAIT)
        done = server.finish(stop=True)
        self.assertEqual(done.code, 0, done)
        routes = done.event("routes")
        self.assertEqual((routes["pairs"], routes["reached"], routes["good"]), (648 * 647, 648 * 647, True))
        self.assertEqual(done.event("ended")["dropped"], 0)

    def test_a_check_finds_the_slow_link_and_no_other(self):
        net = os.path.join(self.directory, "net")
        self.assertEqual(cli.run("fabric", "--fat-tree", FT16, "--write", net).code, 0)
        with open(net, encoding="utf-8") as file:
            good = file.read()
        slow = good.replace('[1]\t"S0004"[5] s=7', '[1]\t"S0004"[5] s=1', 1)
        self.assertNotEqual(good, slow)
        for text, code, findings in ((good, 0, set()), (slow, 1, {"S0000", "S0004"})):
            server = self.serve(self.path("subnet.net", text.encode()))
            _, log = self.opensm("H00000")
            self.wait_for_log(log, "SUBNET UP")
            done = cli.run("mad", "check", "--transport", f"ibsim:{self.name}")
            self.assertEqual(done.code, code, done)
            found = [line for line in done.out.splitlines() if line.startswith("error")]
            self.assertTrue(all("SDR, but both ends have QDR enabled" in line for line in found), done)
            self.assertLessEqual(len(found), 2, done)
            self.assertTrue({line.split('"')[1] for line in found} <= findings and bool(found) == bool(findings), done)
            self.end_all()
            os.remove(log)
            server.finish(stop=True)

    def test_own_preload_brings_whole_tables(self):
        server = self.serve("--fat-tree", FT648)
        _, log = self.opensm("H00000", preload=OWN_PRELOAD)
        self.wait_for_log(log, "SUBNET UP")
        self.assertEqual(len(self.graph(preload=OWN_PRELOAD)), len(self.graph()))
        records = self.stock("H00001", "saquery", "-t", "20000", "NR", preload=OWN_PRELOAD)
        self.assertEqual(records.count("NodeRecord dump"), 702)
        self.a_capture_has_the_segments_of_a_table(702)
        for preload in ("", OWN_PRELOAD):  # of 702 * 112 octets
            for most, code in ((702 * 112, 0), (702 * 112 - 1, 1)):
                asked = subprocess.run([cli.PARLEY, "mad", "query", "SubnAdmGetTable", "NodeRecord", "--json", "--table-max", str(most),
                                        "--transport", self.transport(preload)], env=self.environment("H00001", preload),
                                       capture_output=True, text=True, timeout=WAIT, check=False)
                self.assertEqual(asked.returncode, code, asked.stderr)
                [said] = map(json.loads, asked.stdout.splitlines())
                self.assertEqual(said.get("fault", len(said.get("records", []))), 702 if code == 0 else "no_space", asked.stderr)
                cli.schema.check_all(["mad", "query", "--json"], asked.stdout)
        self.end_all()
        self.assertEqual(server.finish(stop=True).code, 0)

    def a_capture_has_the_segments_of_a_table(self, nodes):
        """By umad, where the preload does RMPP and hands over one message."""
        capture = self.path("table.pcap")
        asked = subprocess.run([cli.PARLEY, "mad", "query", "SubnAdmGetTable", "NodeRecord", "--json", "--transport", "umad", "--pcap", capture],
                               env=self.environment("H00001", OWN_PRELOAD), capture_output=True, text=True, timeout=WAIT, check=True)
        [reply] = map(json.loads, asked.stdout.splitlines())
        *datagrams, decoded = cli.run("mad", "decode", "--read", capture, "--json").events
        self.assertEqual((decoded["tables"], decoded["damaged"], decoded["unreadable"]), (1, 0, 0))
        [table] = [event for event in datagrams if "segments" in event]
        self.assertEqual(table["records"], reply["records"])
        self.assertEqual(len(table["records"]), nodes)
        self.assertEqual(decoded["packets"], 1 + -(-nodes * 112 // 200))

    def test_stock_ibping_and_ours_answer_each_other(self):
        server = self.serve("--fat-tree", FT16)
        _, log = self.opensm("H00000", preload=OWN_PRELOAD)
        self.wait_for_log(log, "SUBNET UP")
        lids = {event["name"]: event["lid"] for event in cli.run("mad", "discover", "--json", "--transport", f"ibsim:{self.name}").events
                if event["event"] == "node"}
        stock = subprocess.Popen(["ibping", "-S"], env=self.environment("H00003", OWN_PRELOAD), stdout=subprocess.DEVNULL)
        self.processes.append(stock)
        self.wait_until("ibping to answer", lambda: self.ping("H00001", lids["H00003"]).code == 0)
        self.assertEqual(self.ping("H00001", lids["H00003"], preload=OWN_PRELOAD).code, 0)
        for node, preload in (("H00004", OWN_PRELOAD), ("H00005", "")):
            ours = subprocess.Popen([cli.PARLEY, "mad", "ping", "--serve", "--transport", self.transport(preload)], stdout=subprocess.PIPE,
                                    env=self.environment(node, preload), text=True)
            self.processes.append(ours)
            self.assertIn(f"LID {lids[node]}", ours.stdout.readline())
            self.assertIn("1 received", self.stock("H00001", "ibping", "-c", "1", str(lids[node])))
            for asking in ("", OWN_PRELOAD):
                long = self.ping("H00002", lids[node], "--size", "100000", preload=asking)
                self.assertIn("answered: 100000 octets", long.out, long)
            ours.send_signal(signal.SIGINT)
            answered = ours.communicate(timeout=WAIT)[0].splitlines()[-1]  # more than 3 if one was asked for again
            self.assertGreaterEqual(int(answered.removesuffix(" answered")), 3)
        self.end_all()
        server.finish(stop=True)

    def test_ibsim_brings_nobody_requests(self):
        name = self.ibsim(self.written(FT16))
        for node, preload in (("H00001", ""), ("H00002", IBSIM_PRELOAD)):
            done = subprocess.run([cli.PARLEY, "mad", "ping", "--serve", "--transport", self.transport(preload)], capture_output=True, text=True,
                                  env=self.environment(node, preload, name), timeout=WAIT, check=False)
            self.refused(cli.Finished(done.returncode, done.stdout, done.stderr), 3, "ibsim brings no requests to a program")

    def test_paths_are_those_of_the_whole_table_that_opensm_gives_saquery(self):
        """One table of all 1,936 paths between 44 nodes, and 1,000 of them asked for one by one."""
        server = self.serve("--fat-tree", "2,8,8,4")
        _, log = self.opensm("H00000", preload=OWN_PRELOAD)
        self.wait_for_log(log, "SUBNET UP")
        dump = self.stock("H00001", "saquery", "-t", "20000", "PR", preload=OWN_PRELOAD)
        table = {}
        for record in dump.split("PathRecord dump:")[1:]:
            said = dict(re.findall(r"^\s+(\w+)\.+(\S+)$", record, re.M))
            table[said["slid"], said["dlid"]] = said
        self.assertEqual(len(table), 44 * 44, dump[:1000])
        pairs = random.Random(5).sample(sorted(table), 1000)
        lines = "".join(f"{a},{b}\n" for a, b in pairs)
        done = cli.run("mad", "sa", "--from", self.path("pairs", lines.encode()), "--window", "64", "--json", "--transport",
                       f"ibsim:{self.name}/H00002")
        self.assertEqual(done.code, 0, done.err)
        events = [event for event in done.events if event["event"] == "path"]
        self.assertEqual([(event["from"], event["to"]) for event in events], pairs)
        for pair, event in zip(pairs, events):
            self.assertEqual(as_saquery(event["record"]), {name: table[pair][name] for name in COMPARED}, pair)
        server.finish(stop=True)

    def test_own_preload_bears_forks(self):
        server = self.serve("--fat-tree", FT16)
        said = self.stock("H00001", sys.executable, "-B", "-c", FORKS, preload=OWN_PRELOAD)
        self.assertEqual(said.splitlines(), ["child 2: INIT", "parent 2: INIT", "-1 EFAULT"])
        self.assertEqual([name for name in os.listdir(os.path.join(self.directory, "H00001")) if name.startswith("parley-umad")], [])
        ended = server.finish(stop=True).event("ended")
        self.assertEqual((ended["clients"], ended["clients_died"]), (2, 0))

    def test_own_preload_says_at_once_that_the_server_died(self):
        for end in (signal.SIGKILL, signal.SIGINT):
            server = self.start("fabric", "--name", self.name, "--fat-tree", FT16)
            server.wait_for("serving")
            program = subprocess.Popen([sys.executable, "-B", "-c", DEAD_SERVER], env=self.environment("H00001", OWN_PRELOAD), text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.processes.append(program)
            self.assertEqual(program.stdout.readline(), "answered 0x81\n")
            server.process.send_signal(end)
            out, err = program.communicate(timeout=WAIT)
            self.assertEqual(out.splitlines(), ["poll 1", "read EIO", "write EIO", "poll 1", "ioctl EIO", "blocked read EIO", "open ENXIO"], err)
            self.assertEqual(err, f"libparley_umad: the server of '{self.name}' is gone; its device fails with EIO from now on\n")
            server.finish(stop=False)
    def test_what_a_killed_program_leaves_is_removed_by_the_next(self):
        self.serve("--fat-tree", FT16)
        def left():
            return [name for name in os.listdir(os.path.join(self.directory, "H00001")) if name.startswith("parley-umad")]
        waits = "import os, sys, time; print(open('/sys/class/infiniband/parley0/node_type').read(), flush=True); time.sleep(60)"
        running = [subprocess.Popen([sys.executable, "-B", "-c", waits], env=self.environment("H00001", OWN_PRELOAD),
                                    stdout=subprocess.PIPE, text=True) for _ in range(2)]
        self.processes += running
        for process in running:
            self.assertEqual(process.stdout.readline(), "1: CA\n")
        killed, lives = running
        killed.kill()
        killed.wait()
        self.assertEqual(len(left()), 2)
        self.stock("H00001", "ibstat", preload=OWN_PRELOAD)
        self.assertEqual(len(left()), 1, "the killed one's folder is gone, that of the one that runs is not")
        for process in running:
            process.stdout.close()
        lives.kill()

    def test_a_lossy_subnet_comes_up_by_repetition(self):
        server = self.serve("--fat-tree", FT16, "--loss", "2%", "--seed", "7", "--fault", "vl15 4 300us of S0004")
        _, log = self.opensm("H00000", preload=OWN_PRELOAD)
        self.wait_for_log(log, "SUBNET UP")
        self.wait_until("routes", self.routes_are_good)
        self.end_all()
        done = server.finish(stop=True)
        self.assertGreater(done.event("fault")["hits"], 0)
        self.assertGreater(done.event("ended")["lost"], done.event("fault")["hits"])

    def test_discovers_a_lossy_subnet_whole(self):
        for loss, options in (("0.1%", ()), ("1%", ()), ("3%", ()), ("10%", ("--retries", "8"))):
            server = self.serve("--fat-tree", FT648, "--loss", loss)
            done = cli.run("mad", "discover", "--json", "--timeout", "50ms", *options, "--transport", f"ibsim:{self.name}/H00003")
            self.assertEqual(done.code, 0, f"{loss}: {done.err}")
            summary = done.event("summary")
            self.assertEqual([summary[key] for key in ("switches", "channel_adapters", "links", "lost")], [54, 648, 1296, 0], loss)
            self.assertGreater(server.finish(stop=True).event("ended")["lost"], 0)

    def test_no_answer_is_not_told_as_could_not_be_sent(self):
        """No port has LID 77: the request is sent, and dropped on its way."""
        server = self.serve("--fat-tree", FT16)
        for name in (self.name, self.ibsim(self.written(FT16))):
            done = cli.run("mad", "query", "SubnGet", "NodeInfo", "77", "--timeout", "10ms", "--transport", f"ibsim:{name}")
            self.assertEqual(done.code, 1, done)
            self.assertIn("SubnGet(NodeInfo) to LID 77: no answer in 4 tries", done.err)
        server.finish(stop=True)

    def test_another_subnet_manager_takes_over(self):
        server = self.serve("--fat-tree", FT16)
        first, log = self.opensm("H00000", "-p", "5")
        self.wait_for_log(log, "SUBNET UP")
        _, other = self.opensm("H00009", "-p", "1")
        self.wait_for_log(other, "Entering STANDBY state")
        first.kill()
        first.wait()
        self.wait_for_log(other, "Entering MASTER state")
        self.wait_until("routes", self.routes_are_good)
        self.assertIn("SMINFO_MASTER", self.stock("H00009", "sminfo"))
        self.end_all()
        self.wait_for_deaths(server, 2)
        self.assertEqual(server.finish(stop=True).event("ended")["clients_died"], 2)

    def test_requests_follow_the_subnet_manager(self):
        """It stands still in the midst of a run, and another takes over: no path is missing, whichever way Parley sends."""
        server = self.serve("--fat-tree", FT16)
        first, log = self.opensm("H00000", "-p", "5", preload=OWN_PRELOAD)  # ibsim's has no time limits
        self.wait_for_log(log, "SUBNET UP")
        _, other = self.opensm("H00009", "-p", "1", preload=OWN_PRELOAD)
        self.wait_for_log(other, "Entering STANDBY state")
        pairs = self.path("pairs", b"1,2\n" * 5000)
        runs = [subprocess.Popen([cli.PARLEY, "mad", "sa", "--from", pairs, "--window", "1", "--timeout", "100ms", "--retries", "8", "--json",
                                  "--transport", self.transport(preload)], stdout=subprocess.PIPE, text=True,
                                 env=self.environment(node, preload)) for node, preload in (("H00003", ""), ("H00004", OWN_PRELOAD))]
        self.processes += runs
        for run in runs:
            self.assertIn('"event":"path"', run.stdout.readline())
        first.send_signal(signal.SIGSTOP)
        for run in runs:
            self.assertIn('"pairs":5000,"paths":5000,"missing":0', run.communicate(timeout=WAIT)[0].splitlines()[-1])
        self.wait_for_log(other, "Entering MASTER state")
        self.end_all()
        server.finish(stop=True)

    def test_a_switch_resets_in_the_sweep(self):
        server = self.serve("--fat-tree", FT16, "--fault", "reset 1st SubnSet(LinearForwardingTable) of S0002")
        _, log = self.opensm("H00000", preload=OWN_PRELOAD)
        self.wait_for_log(log, "Entering MASTER state")
        self.wait_until("routes", self.routes_are_good)
        down = cli.run("fabric", "--name", self.name, "--tell", "down S0000:1")
        self.assertEqual(down.code, 0, down)
        self.wait_until("routes around it", self.routes_are_good)
        self.end_all()
        done = server.finish(stop=True)
        self.assertEqual(done.code, 0, done)
        self.assertEqual([event["hits"] for event in done.events if event["event"] == "fault"], [1, 1])

    def test_serves_more_than_ten_clients(self):
        server = self.serve("--fat-tree", FT16)
        clients = [RawClient(self.name, os.getpid() * 100 + n, f"H{n % 16:05}") for n in range(40)]
        _, log = self.opensm("H00000")
        self.wait_for_log(log, "SUBNET UP")
        for client in clients:
            client.send()
        self.assertEqual([client.receive()[32 + 3] for client in clients], [0x81] * 40)
        for client in clients:
            client.close()
        self.end_all()
        done = server.finish(stop=True)
        self.assertGreater(done.event("ended")["clients_most"], 40)

    def test_a_client_that_does_not_read_holds_up_nobody(self):
        server = self.serve("--fat-tree", FT16)
        deaf, other = RawClient(self.name, os.getpid() * 100, "H00001"), RawClient(self.name, os.getpid() * 100 + 1, "H00002")
        for _ in range(20000):
            deaf.send()
        other.send()
        self.assertEqual(other.receive()[32 + 3], 0x81)
        self.wait_until("the server to read", deaf.all_is_read)
        # Once it reads, it has what waits: a full queue, more than its socket holds.
        self.assertEqual({deaf.receive()[32 + 3] for _ in range(QUEUE_MAX)}, {0x81})
        deaf.close()
        other.close()
        done = server.finish(stop=True)
        self.assertGreater(done.event("ended")["dropped"], 0)
        self.assertEqual(done.event("ended")["answered"], 20001)
        self.assertIn("does not read", done.err)

    def test_a_client_goes_that_has_read_nothing_and_just_written(self):
        server = self.serve("--fat-tree", FT16)
        client = RawClient(self.name, os.getpid() * 100, "H00001")
        for _ in range(1000):
            client.send()
        self.wait_until("the server to read", client.all_is_read)
        server.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, server.process.pid, os.WSTOPPED)
        client.send()
        client.close()
        server.process.send_signal(signal.SIGCONT)
        self.wait_for_deaths(server, 1)
        other = RawClient(self.name, os.getpid() * 100 + 1, "H00002")
        other.send()
        self.assertEqual(other.receive()[32 + 3], 0x81)
        other.close()
        self.assertEqual(server.finish(stop=True).event("ended")["clients_died"], 1)


# A child has a device of its own, and leaves its parent's where it is.
FORKS = """
import ctypes, errno, os, sys
def state():
    with open("/sys/class/infiniband/parley0/ports/1/state", encoding="ascii") as file:
        return file.read().strip()
state()
if os.fork() == 0:
    print("child", state(), flush=True)
    sys.exit()
os.wait()
print("parent", state(), flush=True)
print(ctypes.CDLL(None, use_errno=True).open(None, 0), errno.errorcode[ctypes.get_errno()])
"""


# Speaks to umad as libibumad does: an agent for directed routes, a request that is answered, one under way when the server ends, and what
# each call says then.
DEAD_SERVER = """
import errno, fcntl, os, select, struct
REGISTER = 3 << 30 | 28 << 16 | 0x1B << 8 | 1

def agent():
    return bytearray(struct.pack("=5I7Bx", 0, 0, 0, 0, 0, 0, 0x81, 1, 0, 0, 0, 0))

def said(what, call):
    try:
        print(what, call(), flush=True)
    except OSError as error:
        print(what, errno.errorcode[error.errno], flush=True)

def write(to):
    mad = bytearray(256)
    mad[0:4], mad[15], mad[17], mad[32:36] = bytes([1, 0x81, 1, 1]), 9, 0x11, b"\\xff" * 4
    return os.write(fd, struct.pack("=5I8xH34x", 0, 0, 60000, 3, 0, to) + mad)

fd, blocking = os.open("/dev/infiniband/umad0", os.O_RDWR | os.O_NONBLOCK), os.open("/dev/infiniband/umad0", os.O_RDWR)
fcntl.ioctl(fd, REGISTER, agent())
write(0xFFFF)
select.select([fd], [], [])
print("answered", hex(os.read(fd, 320)[64 + 3]), flush=True)
wait = select.poll()
wait.register(fd, select.POLLIN)
said("poll", lambda: wait.poll(60000)[0][1])
said("read", lambda: os.read(fd, 320))
said("write", lambda: write(0xFFFF))
said("poll", lambda: wait.poll(60000)[0][1])
said("ioctl", lambda: fcntl.ioctl(fd, REGISTER, agent()))
said("blocked read", lambda: os.read(blocking, 320))
said("open", lambda: os.open("/dev/infiniband/umad0", os.O_RDWR))
"""


class RawClient:
    """Speaks ibsim's protocol itself."""

    def __init__(self, name, number, node):
        self.control, self.data = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
        self.control.bind(f"\0{name}:ctl{number}\0")
        self.data.bind(f"\0{name}:in{number}\0")
        self.control.connect(f"\0{name}:ctl\0")
        self.control.send(struct.pack("=4I", 0xDEADBEEF, 0, 1, 64) + struct.pack("=3I32s20x", number, 0, 0, node.encode()))
        _, _, kind, _, self.client = struct.unpack_from("=5I", self.control.recv(80))
        assert kind == 1, "refused"
        self.data.connect(f"\0{name}:out{self.client}\0")
        for each in (self.control, self.data):
            each.settimeout(WAIT)

    def send(self):
        """SubnGet(NodeInfo) of the switch beside it."""
        mad = bytearray(256)
        mad[0:8] = bytes([1, 0x81, 1, 1, 0, 0, 0, 1])
        mad[17], mad[129] = 0x11, 1
        mad[32:36] = b"\xff" * 4
        self.data.send(b"\xff\xff\0\0" * 2 + bytes(16) + struct.pack(">Q", 256) + mad)

    def receive(self):
        return self.data.recv(512)

    def all_is_read(self):
        """Whether the server has read what was sent."""
        return struct.unpack("i", fcntl.ioctl(self.data, termios.TIOCOUTQ, bytes(4)))[0] == 0

    def close(self):
        self.control.close()
        self.data.close()


if __name__ == "__main__":
    cli.main()

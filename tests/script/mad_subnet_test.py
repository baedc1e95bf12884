# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""`parley mad` against stock programs: subnets simulated by ibsim, opensm as their subnet manager, and what ibnetdiscover and saquery
say of the same."""
import glob
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

from cli import LIMIT, PARLEY, CliTest, main, run

PRELOAD = next(iter(sorted(glob.glob("/usr/lib/*/umad2sim/libumad2sim.so"))), "")
NUMBERS = itertools.count()


def is_sanitized(program):
    """Whether AddressSanitizer is in it."""
    with open(program, "rb") as file:
        return b"__asan_init" in file.read()


class Simulated:
    """A subnet: ibsim, and opensm, which stays there as subnet administration."""

    def __init__(self, tree=None, manager=True, net=None):
        self.folder = tempfile.mkdtemp(prefix="parley-mad-")
        self.name = f"parley{os.getpid()}.{next(NUMBERS)}"
        self.processes = []
        path = os.path.join(self.folder, "net")
        if tree:
            made = run("fabric", "--fat-tree", tree, "--write", path)
            assert made.code == 0, made
        else:
            with open(path, "w", encoding="ascii") as file:
                file.write(net)
        self.start("ibsim", "-s", "-n", path)
        self.until(lambda: run("mad", "query", "SubnGet", "NodeInfo", "0,", *self.at("H00001")).code == 0)
        if manager:
            log = os.path.join(self.folder, "osm.log")
            self.start("opensm", "-maxsmps", "32", "-f", log, "-D", "0x43", node="H00000", OSM_TMP_DIR=self.folder,
                       OSM_CACHE_DIR=self.folder)
            self.until(lambda: run("mad", "sa", "1,2", *self.at("H00001")).code == 0)

    def environment(self, node=None, **more):
        out = {**os.environ, "IBSIM_SOCKNAME": self.name, **more}
        return {**out, "SIM_HOST": node, "LD_PRELOAD": PRELOAD} if node else out

    def start(self, *command, node=None, **more):
        self.processes.append(subprocess.Popen(command, cwd=self.folder, env=self.environment(node, **more),
                                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def stock(self, *command):
        """What a stock program says, attached to a node of its own."""
        return subprocess.run(command, cwd=self.folder, env=self.environment("H00002"), capture_output=True, text=True,
                              timeout=LIMIT, check=True).stdout

    def at(self, node="H00003"):
        return "--transport", f"ibsim:{self.name}/{node}"

    @staticmethod
    def until(good):
        end = time.monotonic() + LIMIT
        while not good():
            assert time.monotonic() < end, "the simulated subnet does not come up"
            time.sleep(0.05)

    def stop(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, True)


def lines_of(topology):
    return sorted(line for line in topology.splitlines() if line and not line.startswith("#"))


class Subnet(CliTest):
    TREE = "2,8,4,4"  # 8 switches, 16 hosts

    @classmethod
    def setUpClass(cls):
        cls.net = Simulated(cls.TREE)

    @classmethod
    def tearDownClass(cls):
        cls.net.stop()

    def parley(self, *words, code=0):
        done = run("mad", *words, *self.net.at())
        self.assertEqual(done.code, code, done)
        return done

    def test_discover_finds_what_ibnetdiscover_finds(self):
        theirs = lines_of(self.net.stock("ibnetdiscover", "-o", "16"))
        self.assertGreater(len(theirs), 100)
        self.assertEqual(lines_of(self.parley("discover").out), theirs)
        self.assertEqual(lines_of(self.parley("discover", "--by-lid").out), theirs)

    def test_paths_are_those_of_saquery(self):
        lids = [event["lid"] for event in self.parley("discover", "--json").events if event.get("type") == "channel_adapter"]
        drawn = random.Random(5)
        pairs = [drawn.sample(lids, 2) for _ in range(8)]
        events = self.parley("sa", "--json", *(f"{a},{b}" for a, b in pairs)).events
        for (a, b), event in zip(pairs, events):
            said = self.net.stock("saquery", "PR", "--slid", str(a), "--dlid", str(b))
            theirs = dict(re.findall(r"^\s+(\w+)\.*\s*(\S+)$", said, re.M))
            ours = event["record"]
            self.assertEqual(theirs["dgid"], ours["dgid"])
            self.assertEqual(theirs["sgid"], ours["sgid"])
            for name in ("dlid", "slid", "sl"):
                self.assertEqual(int(theirs[name], 0), ours[name], said)
            self.assertEqual(int(theirs["pkey"], 0), int(ours["p_key"], 0))
            for name, member in (("mtu", "mtu"), ("rate", "rate"), ("pkt_life", "packet_life_time")):
                self.assertEqual(int(theirs[name], 0) & 0x3F, ours[member]["value"], said)

    def test_every_form_of_a_path_leads_there(self):
        host = next(event for event in self.parley("discover", "--json").events if event.get("name") == "H00009")
        guid = int(host["port_guid"], 0)
        groups = ":".join(f"{guid:016x}"[i:i + 4] for i in range(0, 16, 4))
        route = ",".join(map(str, host["route"]))
        for path in (host["lid"], hex(host["lid"]), route, groups, f"fe80::{groups}", f"IBPath(DLID={host['lid']},SL=0)", f"IBPath(DGID=fe80::{groups},retries=5)",
                     f"IBDRPath(drPath={route.replace(',', ':')})"):
            reply = self.parley("query", "SubnGet", "NodeDescription", path, "--json").event("reply")
            self.assertEqual(reply["records"][0]["node_string"], "H00009", path)

    def test_tables_that_need_rmpp_say_that_they_are_cut(self):
        done = self.parley("query", "SubnAdmGetTable", "NodeRecord", "--json", code=1)
        self.assertEqual(len(done.event("reply")["records"]), 1)
        self.assertIn("longer than one datagram", done.event("unanswered")["text"])

    def test_check_passes_a_good_subnet_and_tells_of_one_without_a_manager(self):
        summary = self.parley("check", "--json").event("summary")
        self.assertEqual((summary["verdict"], summary["findings"], summary["ports_with_counters"]), ("passed", 0, 64))
        raw = Simulated(self.TREE, manager=False)
        self.addCleanup(raw.stop)
        done = run("mad", "check", "--json", *raw.at())
        self.assertEqual(done.code, 1, done)
        faults = {event["fault"] for event in done.events if event["event"] == "finding"}
        self.assertEqual(faults, {"state", "no_lid"})

    def test_a_page_has_every_node_and_a_graph_every_link(self):
        page = self.path("subnet.html")
        self.parley("discover", "--html", page)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        for name in [f"H{i:05}" for i in range(16)] + [f"S{i:04}" for i in range(8)]:
            self.assertIn(name, text)
        self.assertIn("no findings", text)
        self.assertNotIn("http", re.sub(r'xmlns="[^"]*"', "", text.split("<footer")[0]))
        self.assertEqual(self.parley("discover", "--dot").out.count(" -- "), 32)

    def test_each_datagram_is_traced_and_captured(self):
        capture = self.path("mad.pcap")
        done = self.parley("query", "SubnAdmGet", "PathRecord", "slid=1", "dlid=3", "--trace", "--pcap", capture)
        self.assertRegex(done.err, r"> LID 1 QP 1  SubnAdmGet\(PathRecord\).*\n.*< LID 1 QP 1  SubnAdmGetResp\(PathRecord\)")
        if os.environ.get("CI") or shutil.which("tshark"):
            shown = subprocess.run(["tshark", "-r", capture], capture_output=True, text=True, timeout=LIMIT, check=True).stdout
            self.assertRegex(shown, r"(?s)SubnAdmGet\(PathRecord\).*SubnAdmGetResp\(PathRecord\)")

    def test_top_shows_ports(self):
        done = self.parley("top", "--interval", "20ms", "--count", "2", "--lines", "3", "--json")
        self.assertEqual([event["read"] for event in done.events if event["event"] == "round"], [64, 64])
        self.assertEqual(len([event for event in done.events if event["event"] == "port"]), 6)

    def test_top_interrupted_is_partial_unless_ctrl_c_is_its_end(self):
        for words, code, sentence in ((("--count", "1000"), 1, "partial: interrupted after"), ((), 0, "")):
            process = subprocess.Popen([PARLEY, "mad", "top", "--interval", "20ms", *words, *self.net.at()],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertIn("64 ports", process.stdout.readline())
            process.send_signal(signal.SIGINT)
            err = process.communicate(timeout=LIMIT)[1]
            self.assertEqual(process.returncode, code, err)
            self.assertIn(sentence, err)

    def test_libibumad_under_the_preloaded_library_finds_the_same(self):
        if "without libibumad" in run("mad", "discover", "--transport", "umad").err:
            self.skipTest("this parley was built without libibumad")
        if is_sanitized(PARLEY):
            self.skipTest("libumad2sim.so reads beyond a buffer of its own, at which AddressSanitizer ends the program; "
                          "the builds without it run this")
        done = self.net.stock(PARLEY, "mad", "discover", "--transport", "umad")
        self.assertEqual(lines_of(done), lines_of(self.parley("discover").out))
        self.assertIn("1 path, 0 without", self.net.stock(PARLEY, "mad", "sa", "1,3", "--transport", "umad"))

    def test_pairs_that_cannot_be_read_are_not_none(self):
        done = self.parley("sa", "1,3", "--from", os.path.dirname(self.path("x")), code=3)
        self.assertIn("line 1: cannot be read", done.err)
        self.parley("sa", "--all-pairs", "--sample", 1 << 40, code=2)

    def test_a_path_that_is_spelt_out_has_its_own_times_wherever_it_stands(self):
        spelt = "IBDRPath(drPath=0:1:8:7,retries=0,timeout_us=50000)"
        done = self.parley("query", "SubnGet", "PortInfo", "modifier=1", spelt, "--json", code=1)
        self.assertEqual(done.event("unanswered")["tries"], 1)

    def test_what_cannot_be_reached_is_said(self):
        self.assertIn("no ibsim runs with that socket name", run("mad", "discover", "--transport", "ibsim:nobody").err)
        self.assertIn("does not attach us to node 'X'", run("mad", "discover", *self.net.at("X")).err)
        done = self.parley("query", "SubnGet", "NodeInfo", "0,1,8,7", "--retries", "0", "--timeout", "50ms", code=1)
        self.assertIn("SubnGet(NodeInfo)", done.err)


class Alone(CliTest):
    def test_where_there_is_no_link_nothing_is_good(self):
        net = Simulated(manager=False, net='Hca 1 "H00000"\n\nHca 1 "H00001"\n')
        self.addCleanup(net.stop)
        page = self.path("page.html")
        for words in (("discover",), ("check", "--no-counters"), ("discover", "--html", page)):
            done = run("mad", *words, *net.at("H00000"))
            self.assertEqual(done.code, 1, done)
            self.assertIn("no link was found", done.err)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("no link was found", text)
        self.assertNotIn("badge good", text)
        done = run("mad", "check", "--json", *net.at("H00000"))
        self.assertEqual((done.code, done.event("summary")["verdict"]), (1, "failed"), done)
        self.assertIn("no counters were read", done.err)


class Large(CliTest):
    def test_of_702_nodes(self):
        net = Simulated("2,36,36,18")
        self.addCleanup(net.stop)
        done = run("mad", "discover", *net.at())
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(lines_of(done.out), lines_of(net.stock("ibnetdiscover", "-o", "16")))
        sampled = run("mad", "sa", "--all-pairs", "--sample", "500", "--window", "64", "-q", *net.at())
        self.assertRegex(sampled.out, r"^500 paths, 0 without, of 500 pairs")
        # Ctrl-C in the midst of 419,256 queries: what came is there, and said to be not all.
        process = subprocess.Popen([PARLEY, "mad", "sa", "--all-pairs", *net.at()], stdout=subprocess.PIPE, text=True)
        self.assertIn(" -> ", process.stdout.readline())
        process.send_signal(signal.SIGINT)
        out = process.communicate(timeout=LIMIT)[0].splitlines()[-1]
        self.assertEqual(process.returncode, 1, out)
        self.assertRegex(out, r"^PARTIAL \(interrupted\): \d+ paths?, 0 without, of 419256 pairs")


class Lost(CliTest):
    def test_a_simulator_that_dies_is_one_clear_error(self):
        net = Simulated("2,8,4,4")
        self.addCleanup(net.stop)
        process = subprocess.Popen([PARLEY, "mad", "top", "--interval", "20ms", "--timeout", "50ms", *net.at()],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertIn("64 ports", process.stdout.readline())
        net.processes[0].kill()
        err = process.communicate(timeout=LIMIT)[1]
        self.assertEqual(process.returncode, 3, err)
        self.assertRegex(err, r"^parley mad top: ibsim '\S+': .*ibsim is gone: its socket has no reader any more\n$")


if __name__ == "__main__":
    main()

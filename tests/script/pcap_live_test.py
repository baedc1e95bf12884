# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""`parley pcap live` on loopback, against Parley's own endpoints and hand-made ones."""
import csv
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import time
import unittest
from xml.etree import ElementTree

from cli import LIMIT, PARLEY, CliTest, main, needs, run


def why_not():
    """Why nothing can be captured here; empty: it can. Where tests must not be left out, nobody asks."""
    if os.environ.get("CI"):
        return ""
    tried = run("pcap", "live", "-i", "lo", "--duration", "10ms", "tcp port 1")
    return "" if tried.code == 1 else tried.err.strip()


WHY_NOT = why_not()


class CommandLine(CliTest):
    def test_the_interfaces_are_listed(self):
        listed = self.ok(run("pcap", "live", "-D", "--json"))
        self.assertEqual({event["event"] for event in listed.events}, {"interface"})
        self.assertIn("lo", [event["name"] for event in listed.events])
        self.assertRegex(self.ok(run("pcap", "live", "--list-interfaces")).out, r"(?m)^lo +up, loopback")

    def test_what_is_wrong_is_said(self):
        self.refused(run("pcap", "live"), 2, "no interface is given", "-D")
        self.refused(run("pcap", "live", "-i", "lo", "--ring", "2x1MB"), 2, "--write")
        self.refused(run("pcap", "live", "-i", "lo", "-w", "x"), 2, "--ring")
        self.refused(run("pcap", "live", "-i", "lo", "--ring", "1x1MB", "-w", "x"), 2, "2 to 100000 files")
        self.refused(run("pcap", "live", "-i", "lo", "--buffer", "1kB"), 2, "1MiB to 1GiB")
        self.refused(run("pcap", "live", "-i", "lo", "--duration", "10"), 2, "time with a unit")
        self.refused(run("pcap", "live", "-i", "lo", "--json", "--csv", "-"), 2, "only one of --json, --junit - and --csv -")
        self.refused(run("pcap", "live", "-i", "lo", "--csv", "/nowhere/x.csv"), 3, "/nowhere/x.csv")

    @unittest.skipUnless(os.getuid() == 0 and shutil.which("setpriv"), "only root can give its rights away")
    def test_who_may_not_capture_is_told_what_to_do(self):
        done = subprocess.run(["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--bounding-set=-net_raw",
                               "--inh-caps=-all", "--", PARLEY, "pcap", "live", "-i", "lo"], capture_output=True, text=True,
                              timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("no permission to capture on 'lo'", done.stderr)
        self.assertIn("sudo setcap cap_net_raw+ep $(command -v parley)", done.stderr)


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Live(CliTest):
    def live(self, port, *args):
        live = self.start("pcap", "live", "-i", "lo", *args, f"tcp port {port}")
        live.wait_for("capturing")
        return live

    def plain(self, *args, **how):
        live = subprocess.Popen([PARLEY, "pcap", "live", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, **how)
        self.addCleanup(lambda: (live.kill(), live.communicate()))
        return live

    def interrupt(self, live):
        live.process.send_signal(signal.SIGINT)
        return live.finish()

    @staticmethod
    def connections(finished):
        return [event for event in finished.events if event["event"] == "connection"]

    def connect(self, port, *args):
        return self.ok(run("connect", f"127.0.0.1:{port}", *args))

    def bad_request(self, port):
        """A Request of a revision that no RFC defines (RFC 6581 §6)."""
        with socket.create_connection(("127.0.0.1", port), LIMIT) as s:
            s.sendall(b"MPA ID Req Frame" + bytes([0x40, 7, 0, 0]))
            s.settimeout(LIMIT)
            try:
                while s.recv(4096):
                    pass
            except ConnectionResetError:
                pass

    def test_each_verdict_comes_as_its_connection_ends(self):
        _, port = self.listener("--echo")
        live = self.live(port)
        self.connect(port)
        first = live.wait_for("connection")
        self.assertEqual((first["connection"], first["outcome"], first["verdict"]), (1, "established", "passed"), first)
        self.connect(port, "--revision", 1, "--send", 3, "--echoed")
        second = live.wait_for("connection")
        self.assertEqual((second["connection"], second["revision"]), (2, 1))
        self.assertGreater(second["from_initiator"]["messages"], 0)
        self.bad_request(port)
        third = live.wait_for("connection")
        self.assertEqual((third["connection"], third["verdict"]), (3, "failed"))
        self.assertIn("revision 7", json.dumps(third["findings"]))
        done = self.interrupt(live)
        self.assertEqual(done.code, 1, str(done))
        summary = done.event("summary")
        self.assertEqual([summary[key] for key in ("connection_count", "passed", "partial", "failed")], [3, 2, 0, 1])
        self.assertEqual((summary["verdict"], summary["reason"]), ("failed", "1 connection failed"))
        self.assertEqual((summary["end"], summary["dropped"]), ("signal", {"kernel": 0, "interface": 0}))

    def test_csv_and_junit_are_those_of_check(self):
        _, port = self.listener()
        table, junit = self.path("live.csv"), self.path("live.xml")
        live = self.live(port, "--csv", table, "--junit", junit)
        self.connect(port)
        first = live.wait_for("connection")
        with open(table, newline="", encoding="utf-8") as file:  # its line stands there while the capture goes on
            row, = csv.DictReader(file)
        self.assertEqual([row[key] for key in ("file", "connection", "initiator", "outcome", "verdict")],
                         ["lo", "1", first["initiator"], "established", "passed"])
        self.bad_request(port)
        live.wait_for("connection")
        done = self.interrupt(live)
        self.assertEqual(done.code, 1, str(done))
        with open(table, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["verdict"] for row in rows], ["passed", "failed"])
        report = done.event("summary")["report"]
        self.assertEqual({row["report_command"] for row in rows}, {report["command"]})
        self.assertEqual(done.event("capturing")["report"], report)
        suite, = ElementTree.parse(junit).getroot()
        self.assertEqual((suite.get("name"), len(suite.findall("testcase"))), ("lo", 2 + 2 * 8))
        failed = [case.get("name") for case in suite.findall("testcase") if case.find("failure") is not None]
        self.assertTrue(failed and all(name.startswith("connection 2 ") for name in failed), failed)
        self.assertEqual({p.get("name"): p.get("value") for p in suite.iter("property")}["report.date"], report["date"])

    def test_a_table_of_nothing_says_so(self):
        none = run("pcap", "live", "-i", "lo", "--duration", "50ms", "--csv", "-", "tcp port 1")
        self.assertEqual(none.code, 1, str(none))
        row, = csv.DictReader(none.out.splitlines())
        self.assertEqual((row["file"], row["connection"], row["verdict"]), ("lo", "", "failed"))

    def test_the_ring_holds_what_was_judged(self):
        _, port = self.listener()
        base = self.path("ring")
        live = self.live(port, "--ring", "3x1MB", "-w", base)
        for args in ((), ("--revision", 1), ("--markers",)):
            self.connect(port, *args)
        self.bad_request(port)
        for _ in range(4):
            live.wait_for("connection")
        done = self.interrupt(live)
        self.assertEqual(os.listdir(self.directory), ["ring_00001.pcapng"])
        check = run("pcap", "check", "--json", base + "_00001.pcapng")
        self.assertEqual(check.code, done.code, str(check))
        seen = {connection["first_frame"]: connection for connection in check.events[0]["connections"]}
        self.assertEqual(len(seen), 4)
        for connection in self.connections(done):
            recorded = connection.pop("recorded")
            self.assertEqual(recorded["first"], {"file": base + "_00001.pcapng", "frame": connection["first_frame"]})
            self.assertEqual(recorded["last"]["frame"], connection["last_frame"])
            del connection["event"], connection["connection"]
            self.assertEqual(connection, seen[connection["first_frame"]])
        for key in ("packets", "tcp_connections", "errors", "warnings", "verdict", "reason", "passed", "failed", "holds"):
            self.assertEqual(done.event("summary")[key], check.events[0][key], key)

    def test_the_ring_goes_round(self):
        _, port = self.listener("--expect", 400, "--size", 10000)
        base = self.path("ring")
        live = self.live(port, "--ring", "2x1MB", "-w", base)
        self.connect(port, "--send", 400, "--size", 10000)
        connection = live.wait_for("connection")
        self.assertEqual(connection["verdict"], "passed", connection)
        self.assertIsNone(connection["recorded"]["first"], "overwritten")
        self.assertIsNotNone(connection["recorded"]["last"])
        self.assertEqual(self.interrupt(live).code, 0)
        files = sorted(os.listdir(self.directory))
        self.assertEqual(len(files), 2, files)
        self.assertGreater(files[-1], "ring_00003.pcapng")
        for name in files:
            self.assertLessEqual(os.path.getsize(self.path(name)), 1_000_000)

    @needs("tshark")
    def test_wireshark_reads_the_ring(self):
        _, port = self.listener()
        live = self.live(port, "--ring", "2x1MB", "-w", self.path("ring"), "--count", 1)
        self.connect(port)
        done = self.ok(live.finish())
        frames = subprocess.run(["tshark", "-n", "-r", self.path("ring_00001.pcapng"), "-T", "fields", "-e", "frame.number",
                                 "-e", "frame.interface_name", "-e", "tcp.port"], capture_output=True, text=True,
                                timeout=LIMIT, check=True).stdout.splitlines()
        self.assertEqual(len(frames), done.event("summary")["packets"])
        self.assertEqual({line.split("\t")[1] for line in frames}, {"lo"})
        self.assertIn(str(port), frames[0].split("\t")[2])

    def test_a_disk_that_takes_no_more_ends_it(self):
        _, port = self.listener("--expect", 20, "--size", 1000)

        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

        live = self.plain("-i", "lo", "--ring", "2x1MB", "-w", self.path("ring"), "--json", f"tcp port {port}",
                          preexec_fn=small_files)
        self.assertIn("capturing", live.stdout.readline())
        self.connect(port, "--send", 20, "--size", 1000)
        out, err = live.communicate(timeout=LIMIT)
        self.assertEqual(live.returncode, 3, err)
        self.assertEqual(err.strip(), f"parley pcap live: cannot write '{self.path('ring_00001.pcapng')}': File too large")
        summary = [json.loads(line) for line in out.splitlines() if '"summary"' in line][0]
        self.assertEqual(summary["end"], "error")
        self.assertIn("not read to its end", summary["reason"])

    def test_it_ends_by_count_and_by_time(self):
        _, port = self.listener()
        live = self.live(port, "--count", 2)
        for _ in range(2):
            self.connect(port)
        done = self.ok(live.finish())
        self.assertEqual((done.event("summary")["end"], len(self.connections(done))), ("count", 2))
        none = run("pcap", "live", "-i", "lo", "--duration", "50ms", "--json", f"tcp port {port}")
        self.assertEqual(none.code, 1, "nothing seen is no pass")
        self.assertEqual(none.event("summary")["end"], "duration")
        self.assertIn("no connection of a known protocol", none.event("summary")["reason"])

    def test_the_exit_code_is_that_of_check(self):
        _, port = self.listener()
        live = self.live(port, "--count", 1, "--expect", 2)
        self.connect(port)
        done = live.finish()
        self.assertEqual(done.code, 1, str(done))
        self.assertEqual(done.event("summary")["reason"], "1 connection, at least 2 expected")
        for partial_ok, code in ((), 1), (("--partial-ok",), 0):
            live = self.live(port, *partial_ok)
            with socket.create_connection(("127.0.0.1", port), LIMIT) as s:
                s.sendall(b"MPA ID Req Frame" + bytes([0x40, 1, 0, 8]))  # its private data do not come
                time.sleep(0.05)
                live.process.send_signal(signal.SIGINT)
                done = live.finish()
            self.assertEqual(done.code, code, str(done))
            self.assertEqual(self.connections(done)[0]["verdict"], "partial")
            self.assertEqual(self.connections(done)[0]["end"], "open at the end of the capture")

    def test_what_the_kernel_drops_accuses_nobody(self):
        _, port = self.listener("--expect", 3000, "--size", 16000)
        live = self.live(port, "--buffer", "1MiB")
        live.process.send_signal(signal.SIGSTOP)
        self.connect(port, "--send", 3000, "--size", 16000)
        live.process.send_signal(signal.SIGCONT)
        self.assertGreater(live.wait_for("dropped")["kernel"], 0)
        done = self.interrupt(live)
        self.assertEqual(done.code, 1, str(done))
        self.assertIn("dropped by the kernel", done.err)
        summary = done.event("summary")
        self.assertEqual((summary["verdict"], summary["errors"], summary["warnings"]), ("partial", 0, 0), summary)
        self.assertIn("the capture dropped", summary["reason"])
        for connection in self.connections(done):
            self.assertEqual(connection["verdict"], "partial", connection)

    def test_any_interface_and_text_for_people(self):
        _, port = self.listener("--reject")
        live = self.plain("-i", "any", "--count", 1, "tcp", "port", port)
        self.assertRegex(live.stdout.readline(), r"^parley \S+ \(commit \S+\) at \S+Z: parley pcap live -i any")
        begun = live.stdout.readline()
        self.assertEqual(begun, f"capturing on any, link type 113 (Linux cooked), filter 'tcp port {port}'\n")
        self.assertEqual(run("connect", f"127.0.0.1:{port}").code, 1)
        out, err = live.communicate(timeout=LIMIT)
        self.assertEqual(live.returncode, 0, out + err)
        self.assertRegex(out, rf"127\.0\.0\.1:\d+ -> 127\.0\.0\.1:{port}  rejected, passed\n  request +frame 4: ")
        self.assertRegex(out, r"\nany: passed; \d+ packets, 1 TCP connection, 1 of them MPA: 1 passed, 0 partial, 0 failed; 0 ")

    @unittest.skipIf(os.getuid() != 0, "only root makes interfaces")
    def test_an_interface_that_goes_away_ends_it(self):
        name = f"pl{os.getpid() % 100000}"
        subprocess.run(["ip", "link", "add", name, "type", "veth", "peer", "name", name + "p"], check=True)
        self.addCleanup(subprocess.run, ["ip", "link", "delete", name], stderr=subprocess.DEVNULL, check=False)
        for end in (name, name + "p"):
            subprocess.run(["ip", "link", "set", end, "up"], check=True)
        live = self.start("pcap", "live", "-i", name)
        live.wait_for("capturing")
        subprocess.run(["ip", "link", "delete", name], check=True)
        done = live.finish()
        self.assertEqual((done.code, done.event("summary")["end"]), (3, "error"), str(done))
        self.assertIn(f"the capture on '{name}' ended: ", done.event("error")["text"])

    def test_what_cannot_be_captured_is_said(self):
        unknown = self.refused(run("pcap", "live", "-i", "nowhere0"), 3, "no interface 'nowhere0'; there are: ")
        self.assertIn("lo", unknown.err.split("there are:")[1])
        self.refused(run("pcap", "live", "-i", "lo", "tcp", "prot", "7471"), 2, "'tcp prot 7471'", "syntax error")
        # Its packets are those of the kernel's packet filter, which Parley does not decode; not every kernel has it.
        self.refused(run("pcap", "live", "-i", "nflog", "--duration", "10ms"), 3, "nflog")


if __name__ == "__main__":
    main()

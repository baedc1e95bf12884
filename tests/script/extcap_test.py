# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Parley as a capture program of the stock tshark: its interfaces, and captures from them."""
import os
import subprocess
import time

from cli import LIMIT, PARLEY, CliTest, main, needs, run

SIMULATED = "parley-sim-lossy_handshake"


class CommandLine(CliTest):
    def test_each_scenario_and_endpoint_is_an_interface(self):
        lines = self.ok(run("extcap", "--extcap-interfaces", "--extcap-version=4.0")).out.splitlines()
        self.assertTrue(lines[0].startswith("extcap {version="))
        values = [line.split("{value=")[1].split("}")[0] for line in lines[1:]]
        scenarios = [line.split()[0] for line in run("sim", "list").out.splitlines()]
        self.assertEqual(values, ["parley-listen", "parley-connect", *(f"parley-sim-{name}" for name in scenarios)])

    def test_what_can_be_chosen(self):
        dlts = self.ok(run("extcap", "--extcap-dlts", "--extcap-interface", SIMULATED)).out
        self.assertEqual(dlts, "dlt {number=1}{name=EN10MB}{display=Ethernet}\n")
        self.assertIn("{call=--seed}", run("extcap", "--extcap-config", "--extcap-interface", SIMULATED).out)
        own = run("extcap", "--extcap-config", "--extcap-interface", "parley-listen").out
        self.assertIn("{call=--endpoint}", own)
        self.assertIn("{call=--options}", own)

    def test_what_is_wrong_is_said(self):
        self.refused(run("extcap", "--extcap-dlts", "--extcap-interface", "eth0"), 2, "no interface 'eth0'")
        self.refused(run("extcap", "--extcap-interface", SIMULATED), 2, "--extcap-interfaces")
        self.refused(run("extcap", "--capture", "--extcap-interface", SIMULATED), 2, "--fifo")
        self.refused(run("extcap", "--capture", "--extcap-interface", SIMULATED, "--extcap-capture-filter", "tcp",
                         "--fifo", self.path("f")), 2, "no capture filter")

    def test_the_seed_is_the_scenario_s(self):
        one, other = self.path("one.pcapng"), self.path("other.pcapng")
        self.ok(run("extcap", "--capture", "--extcap-interface", SIMULATED, "--seed", 7, "--fifo", one))
        self.ok(run("sim", "run", "lossy_handshake", "--seed", 7, "--pcapng", other))
        with open(one, "rb") as a, open(other, "rb") as b:
            self.assertEqual(a.read(), b.read())


@needs("tshark")
class Stock(CliTest):
    def setUp(self):
        super().setUp()
        extcap = os.path.join(self.directory, "extcap")
        os.mkdir(extcap)
        os.symlink(os.path.abspath(PARLEY), os.path.join(extcap, "parley-extcap"))
        # Wireshark takes no folder from the environment when root runs it.
        self.drop = []
        if os.getuid() == 0:
            self.drop = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]
            os.chmod(self.directory, 0o777)
        self.environment = {**os.environ, "WIRESHARK_EXTCAP_DIR": extcap, "HOME": self.directory}

    def tshark(self, *args, **how):
        return subprocess.Popen([*self.drop, "tshark", "-n", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env=self.environment, **how)

    def test_it_lists_them(self):
        out, err = self.tshark("-D").communicate(timeout=LIMIT)
        self.assertIn(f". {SIMULATED} (Parley, simulated: lossy_handshake)", out, err)
        self.assertIn(". parley-listen (Parley: a listening endpoint)", out, err)

    def test_it_captures_a_scenario(self):
        process = self.tshark("-i", SIMULATED, "-o", "extcap.parley_sim_lossy_handshake.seed:7", "-w",
                              self.path("seen.pcapng"))
        _, err = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, err)
        made = self.path("made.pcapng")
        self.ok(run("sim", "run", "lossy_handshake", "--seed", 7, "--pcapng", made))
        seen, same = (subprocess.run(["tshark", "-n", "-r", path], capture_output=True, text=True, timeout=LIMIT,
                                     check=True).stdout for path in (self.path("seen.pcapng"), made))
        self.assertEqual(seen, same)
        self.assertIn("SYN", seen)
        check = run("pcap", "check", self.path("seen.pcapng"), "--json")
        self.assertEqual(check.events[0]["connections"][0]["outcome"], "established", str(check))

    def test_it_captures_an_endpoint_of_its_own_while_it_lives(self):
        probe, port = self.listener("--count", 1)  # a port that is free a moment later
        self.ok(run("connect", f"127.0.0.1:{port}"))
        self.ok(probe.finish())
        process = self.tshark("-l", "-i", "parley-listen", "-o", f"extcap.parley_listen.endpoint:127.0.0.1:{port}",
                              "-o", "extcap.parley_listen.options:--echo --count 1", "-T", "fields", "-e",
                              "tcp.flags.str")
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        end = time.monotonic() + LIMIT
        done = run("connect", f"127.0.0.1:{port}", "--send", 1, "--echoed")
        while done.code != 0 and time.monotonic() < end:  # tshark has not started it yet
            time.sleep(0.1)
            done = run("connect", f"127.0.0.1:{port}", "--send", 1, "--echoed")
        self.ok(done)
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, err)
        flags = out.splitlines()
        self.assertIn("S", flags[0], out)
        self.assertEqual(sum("F" in seen for seen in flags), 2, out)


if __name__ == "__main__":
    main()

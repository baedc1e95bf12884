# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What the tests of simulated InfiniBand subnets share: `parley fabric` as a server, and stock programs on it."""
import glob
import os
import subprocess
import time

import cli

IBSIM_PRELOAD = (glob.glob("/usr/lib/*/umad2sim/libumad2sim.so") + [""])[0]
OWN_PRELOAD = os.path.join(os.path.dirname(cli.PARLEY), "..", "lib", "parley", "libparley_umad.so")
WAIT = cli.LIMIT


class FabricTest(cli.CliTest):
    WAIT = WAIT

    def setUp(self):
        super().setUp()
        self.name = f"fabrictest{os.getpid()}"
        self.processes = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def serve(self, *options):
        server = self.start("fabric", "--name", self.name, "--check-routes", *options)
        server.wait_for("serving")
        return server

    @staticmethod
    def wait_for_deaths(server, count):
        """Until the server has noticed so many clients that went without a word."""
        while count > 0:
            count -= server.wait_for("client")["state"] == "gone"

    def environment(self, node, preload=IBSIM_PRELOAD, name=None):
        folder = os.path.join(self.directory, node)
        os.makedirs(folder, exist_ok=True)
        return {**os.environ, "IBSIM_SOCKNAME": name or self.name, "SIM_HOST": node, "LD_PRELOAD": preload, "OSM_TMP_DIR": folder,
                "OSM_CACHE_DIR": folder, "TMPDIR": folder}

    def stock(self, node, *command, **how):
        done = subprocess.run(command, env=self.environment(node, **how), capture_output=True, text=True, timeout=self.WAIT, check=False,
                              cwd=self.directory)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def opensm(self, node, *options, preload=IBSIM_PRELOAD):
        """A subnet manager in the background, and its log."""
        settings = self.path(f"{node}.conf", b"sminfo_polling_timeout 300\npolling_retry_number 2\n")
        log = os.path.join(self.directory, f"{node}.log")
        process = subprocess.Popen(["opensm", "-F", settings, "-maxsmps", "32", "-d2", "-f", log, "-D", "0x43", *options], cwd=self.directory,
                                   env=self.environment(node, preload), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.processes.append(process)
        return process, log

    def managed_fat_tree(self):
        """A fat tree of 24 nodes, 16 of them hosts, and opensm at the first host, when it has set the subnet up: both of them."""
        server = self.serve("--fat-tree", "2,8,4,4")
        manager, log = self.opensm("H00000", preload=OWN_PRELOAD)
        self.wait_for_log(log, "SUBNET UP")
        return server, manager

    def wait_until(self, what, true, log=None):
        end = time.monotonic() + self.WAIT
        while not true():
            self.assertLess(time.monotonic(), end, f"waited for {what}{'' if log is None else self.end_of(log)}")
            time.sleep(0.05)

    @staticmethod
    def text_of(log):
        if not os.path.exists(log):
            return ""
        with open(log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def end_of(self, log):
        return f"; {log} ends with\n" + "\n".join(self.text_of(log).splitlines()[-30:])

    def wait_for_log(self, log, words):
        self.wait_until(words, lambda: words in self.text_of(log), log)

    def routes_are_good(self):
        return cli.run("fabric", "--name", self.name, "--tell", "check-routes").code == 0

    def graph(self, **how):
        return sorted(line for line in self.stock("H00001", "ibnetdiscover", "-o", "8", **how).splitlines() if not line.startswith("#"))

    def written(self, shape):
        """The file of a fat tree."""
        net = os.path.join(self.directory, "net")
        self.assertEqual(cli.run("fabric", "--fat-tree", shape, "--write", net).code, 0)
        return net

    def ibsim(self, net):
        """Starts it; the name of its sockets."""
        name = f"{self.name}ibsim"
        self.processes.append(subprocess.Popen(["ibsim", "-s", "-n", "-N", "16000", "-S", "2000", "-P", "100000", net],
                                               env={**os.environ, "IBSIM_SOCKNAME": name}, stdout=subprocess.DEVNULL,
                                               stderr=subprocess.DEVNULL))
        self.wait_until("ibsim", lambda: cli.run("mad", "query", "SubnGet", "NodeInfo", "0,", "--transport", f"ibsim:{name}").code == 0)
        return name

    def ping(self, node, lid, *options, preload=""):
        """`parley mad ping` once, from there."""
        done = subprocess.run([cli.PARLEY, "mad", "ping", str(lid), "--count", "1", "--transport", self.transport(preload), *options],
                              env=self.environment(node, preload), capture_output=True, text=True, timeout=self.WAIT, check=False)
        return cli.Finished(done.returncode, done.stdout, done.stderr)

    @staticmethod
    def transport(preload):
        """What Parley sends by: the device that a preload shows, or the sockets."""
        return "umad" if preload else "ibsim"

    def compare_with_ibsim(self, shape, lines):
        """The graph that ibnetdiscover finds in both, which has so many lines for ports."""
        net = self.written(shape)
        expected = self.graph(name=self.ibsim(net))
        self.end_all()
        server = self.serve(net)
        got = self.graph()
        server.finish(stop=True)
        self.assertEqual(sum(line.startswith("[") for line in got), lines)
        self.assertEqual(got, expected)

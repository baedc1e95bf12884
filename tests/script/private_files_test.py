# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What holds payload or peers is created for its owner alone, whatever the umask; what is made to be given away is not."""
import os
import stat

from cli import CliTest, address, main, run


class PrivateFiles(CliTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(os.umask, os.umask(0o022))

    def mode(self, path):
        return oct(stat.S_IMODE(os.stat(path).st_mode))

    def is_private(self, *paths):
        for path in paths:
            self.assertEqual(self.mode(path), "0o600", path)

    def test_captures_and_logs_of_connections(self):
        capture, log, ours = self.path("server.pcapng"), self.path("server.log"), self.path("client.pcapng")
        server, port = self.listener("--pcapng", capture, "--log-file", log, "--count", 1)
        self.ok(run("connect", f"127.0.0.1:{port}", "--pcapng", ours))
        self.ok(server.finish())
        self.is_private(capture, log, ours)
        copy = self.path("copy.pcapng")
        self.ok(run("pcap", "anonymize", ours, "-o", copy))
        self.assertEqual(self.mode(copy), "0o644", "it is made to be given away")

    def test_captures_over_roce(self):
        capture, ours = self.path("server.pcapng"), self.path("client.pcapng")
        server = self.start("udping", "-b", address(1), "--pcapng", capture)
        server.wait_for("listening")
        self.ok(run("udping", "-s", address(1), "--pcapng", ours))
        self.ok(server.finish())
        self.is_private(capture, ours)

    def test_captures_of_simulated_runs(self):
        capture, page = self.path("run.pcapng"), self.path("run.html")
        self.ok(run("sim", "run", "drop_reply", "--pcapng", capture, "--html", page))
        self.is_private(capture)
        self.assertEqual(self.mode(page), "0o644")

    def test_captures_of_management_datagrams(self):
        capture = self.path("mad.pcap")
        self.ok(run("mad", "discover", "--sim", "fat-tree:2,8,4,4", "--pcap", capture))
        self.is_private(capture)

    def test_a_file_that_was_there_keeps_its_mode(self):
        capture = self.path("run.pcapng", b"before")
        os.chmod(capture, 0o640)
        self.ok(run("sim", "run", "drop_reply", "--pcapng", capture))
        self.assertEqual(self.mode(capture), "0o640")


if __name__ == "__main__":
    main()

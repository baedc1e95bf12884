# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""parley demo: what a newcomer sees first."""
import json
import os

from cli import CliTest, main, run


class Demo(CliTest):
    def test_it_shows_a_connection_with_the_rtr_frame(self):
        file = self.path("demo.pcapng")
        done = self.ok(run("demo", "--pcapng", file))
        for words in ("RTR frame", "because", "RDMA Read", "RDMA Write", "all data right", "MPA ID Rtr Frame", file):
            self.assertIn(words, done.out)
        verdict = json.loads(self.ok(run("pcap", "check", "--json", file)).out)
        self.assertEqual([(c["rtr"], c["revision"], c["outcome"]) for c in verdict["connections"]],
                         [("frame", 1, "established")])
        self.assertEqual([f for c in verdict["connections"] for f in c["findings"] if f["severity"] == "error"], [])

    def test_it_opens_with_a_simulated_lossy_handshake(self):
        out = self.ok(run("demo", "--pcapng", self.path("demo.pcapng"))).out
        ladder = out[:out.index("loopback")]
        for words in ("simulated", "MPA Request", "MPA Reply", "frames were lost", "1 established",
                      "parley sim run lossy_handshake --ladder", "pcapng fnv1a 0x"):
            self.assertIn(words, ladder)
        for words in ("MPA Request again", "MPA Reply again", "RTR: RDMA Read"):
            self.assertIn(words, ladder)
        self.ok(run("sim", "run", "lossy_handshake", "--ladder"))

    def test_json(self):
        done = self.ok(run("demo", "--json", "--ipv6", "--pcapng", self.path("demo.pcapng")))
        simulated = done.event("simulated")
        self.assertEqual((simulated["verdict"], simulated["established"], simulated["frames_dropped"]), ("passed", 1, 3))
        exchange = done.event("exchange")
        self.assertEqual((exchange["reads_verified"], exchange["writes_verified"]), (3, 3))
        self.assertEqual([e["role"] for e in done.events if e["event"] == "agreement"], ["initiator", "responder"])
        self.assertEqual(done.event("checked")["connection_count"] > 0, True)
        self.assertEqual({"passed", "failed"}, {e["verdict"] for e in done.events if e["event"] == "checked"})

    def test_given_captures_are_judged(self):
        own = self.path("own.pcapng")
        self.ok(run("demo", "--pcapng", own))
        done = self.ok(run("demo", "--pcapng", self.path("demo.pcapng"), own))
        self.assertIn("own.pcapng: 1 connections (1 established); 0 errors", done.out)

    def test_over_roce(self):
        file = self.path("demo.pcapng")
        done = self.ok(run("demo", "--roce", "--json", "--pcapng", file))
        exchange = done.event("exchange")
        self.assertEqual((exchange["reads_verified"], exchange["writes_verified"]), (3, 3))
        agreed = [e["parameters"] for e in done.events if e["event"] == "agreement"]
        self.assertEqual([p["protocol"] for p in agreed], ["ib-cm", "ib-cm"])
        self.assertEqual(agreed[0]["ib"]["qp_num"], agreed[1]["ib"]["remote_qp_num"])
        verdict = json.loads(self.ok(run("pcap", "check", "--json", file)).out)
        # On a busy machine Parley's CM repeats its REQ, long before the time that it gives its peer (docs/roce.md).
        self.assertEqual([(c["protocol"], c["outcome"], [f for f in c["findings"] if f["key"] != "cm.early"]) for c in verdict["connections"]],
                         [("ibcm", "established", [])])

    def test_over_roce_it_is_drawn(self):
        out = self.ok(run("demo", "--roce", "--pcapng", self.path("demo.pcapng"))).out
        for words in ("UDP port 4791", "all data right", "REQ", "RDMA Read", "RDMA Write", "Linux rxe", "rxe61_cm.pcap"):
            self.assertIn(words, out)
        self.assertNotIn("MPA", out[:out.index("Real captures")])
        self.refused(run("demo", "--roce", "--ipv6", "--pcapng", self.path("demo.pcapng")), 2, "one loopback address")

    def test_over_roce_beside_a_listener_that_has_the_port(self):
        server = self.start("listen", "127.0.0.1:0", "--roce")
        server.wait_for("listening")
        self.ok(run("demo", "--roce", "--json", "--pcapng", self.path("demo.pcapng")))

    def test_bad_surroundings(self):
        self.refused(run("demo", "--pcapng", os.path.join(self.directory, "no", "such")), 3, "cannot create")
        done = run("demo", "--pcapng", self.path("demo.pcapng"), "/nowhere.pcap")
        self.assertEqual(done.code, 3)
        self.assertIn("/nowhere.pcap", done.err)


if __name__ == "__main__":
    main()

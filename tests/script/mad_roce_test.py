# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Management datagrams between two processes over RoCEv2: `parley mad ping` and `query` by QP1 and by UD queue pairs, on addresses of
this machine."""
import re
import socket

from cli import CliTest, main, run

# Of this test alone: port 4791 has one user for each address.
SERVER, CLIENT = "127.0.81.1", "127.0.81.2"
GID = f"::ffff:{SERVER}"


class Ping(CliTest):
    def serve(self, *words, at=SERVER):
        process = self.start("mad", "ping", "--serve", "--transport", f"roce:{at}", *words)
        return process, process.wait_for("serving")

    def ping(self, *words, at=CLIENT, code=0):
        done = run("mad", "ping", "--json", "--interval", "1ms", "--count", 3, "--transport", f"roce:{at}", *words)
        self.assertEqual(done.code, code, done)
        return done

    def test_qp1_answers_qp1_and_a_queue_pair(self):
        server, where = self.serve()
        self.assertEqual((where["gid"], where["qp"], where["lid"]), (GID, 1, 0))
        for at in (CLIENT, CLIENT + "/qp"):
            done = self.ping(GID, at=at)
            self.assertEqual([event["text"] for event in done.events if event["event"] == "pong"], [socket.gethostname()] * 3)
            self.assertEqual(done.event("summary")["answered"], 3)
        self.assertEqual(server.finish(stop=True).event("summary")["answered"], 6)

    def test_a_queue_pair_answers_whoever_knows_its_number(self):
        _, where = self.serve(at=SERVER + "/qp")
        self.assertGreater(where["qp"], 1)
        self.ping(f"IBPath(DGID={GID},dqpn={where['qp']})")
        self.ping("--timeout", "20ms", "--retries", 1, GID, code=1)  # its QP1 has nobody

    def test_long_answers_come_by_rmpp(self):
        self.serve()
        for size in (1, 216, 217, 200000):
            done = self.ping(GID, "--size", size)
            self.assertEqual([event["octets"] for event in done.events if event["event"] == "pong"], [size] * 3)

    def test_a_query_goes_to_the_gid_and_is_traced(self):
        self.serve()
        done = run("mad", "query", "VendGet", "OfaSysStatPing", f"IBPath(DGID={GID})", "class=0x40", "oui=0x1405", "--json",
                   "--trace", "--transport", f"roce:{CLIENT}")
        self.assertEqual(done.code, 1, done)  # of another class
        self.assertEqual(done.event("unanswered")["fault"], "status")
        self.assertTrue(re.search(rf"> GID {GID} QP 1 .*\n.*< GID {GID} QP 1 ", done.err), done.err)
        done = run("mad", "query", "ApplicationGet", "ClassPortInfo", GID, "class=0x2F", "version=2", "--json", "--transport", f"roce:{CLIENT}")
        self.assertEqual(done.code, 1, done)
        self.assertIn("Application 0x2F Get(ClassPortInfo)", str(done.event("unanswered")))

    def test_what_cannot_be_is_refused(self):
        self.serve()
        for words, code, text in ((("5", "--transport", f"roce:{CLIENT}"), 2, "RoCE has no LIDs"),
                                  ((GID, "--transport", "roce:"), 2, "has no address"),
                                  ((GID, "--transport", f"roce:{SERVER}"), 3, "4791"),
                                  ((GID, "--transport", "roce:192.0.2.77"), 3, "192.0.2.77"),
                                  (("0,1", "--transport", f"roce:{CLIENT}"), 2, "directed routes"),
                                  (("--transport", f"roce:{CLIENT}"), 2, "the destination is missing"),
                                  ((GID, "--serve", "--transport", f"roce:{CLIENT}"), 2, "--serve")):
            self.refused(run("mad", "ping", *words), code, text)
        for command in ("discover", "check", "top"):
            self.refused(run("mad", command, "--transport", f"roce:{CLIENT}"), 3, "no subnet management")


if __name__ == "__main__":
    main()

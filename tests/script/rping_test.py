# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""parley rping against itself, and against peers made of raw octets that hold it to rping's own protocol."""
import json
import socket
import struct
import subprocess

from cli import LIMIT, PARLEY, CliTest, main, run

CRC_TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    CRC_TABLE.append(n)


def crc32c(octets):
    crc = 0xFFFFFFFF
    for octet in octets:
        crc = CRC_TABLE[(crc ^ octet) & 0xFF] ^ crc >> 8
    return struct.pack("<I", crc ^ 0xFFFFFFFF)


def fpdu(ulpdu):
    """RFC 5044 §4.1: length, ULPDU, pad, CRC."""
    body = struct.pack(">H", len(ulpdu)) + ulpdu
    body += bytes(-len(body) % 4)
    return body + crc32c(body)


def untagged(opcode, qn, msn, payload):
    """RFC 5041 §4.3, RFC 5040 §4.1: one segment, last."""
    return fpdu(struct.pack(">BBIIII", 0x41, 0x40 | opcode, 0, qn, msn, 0) + payload)


def tagged(opcode, stag, offset, payload):
    return fpdu(struct.pack(">BBIQ", 0xC1, 0x40 | opcode, stag, offset) + payload)


def ping_text(number, size):
    """What rping writes: a head, letters from 'A' to 'z' around, a zero octet."""
    text = f"rdma-ping-{number}: ".encode()[:size]
    letter = number % 58
    while len(text) < size:
        text += bytes([65 + letter])
        letter = (letter + 1) % 58
    return text[:size - 1] + b"\0"


class RawPeer:
    """One end of an MPA connection without markers, by hand."""

    def __init__(self, connection):
        self.socket = connection
        self.socket.settimeout(20)
        self.buffer = b""

    def take(self, count):
        while len(self.buffer) < count:
            more = self.socket.recv(65536)
            assert more, f"closed; {len(self.buffer)} octets left"
            self.buffer += more
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def startup(self):
        frame = self.take(20)
        return frame[:16], frame[16], frame[17], self.take(struct.unpack(">H", frame[18:])[0])

    def ulpdu(self):
        head = self.take(2)
        length = struct.unpack(">H", head)[0]
        rest = self.take(length + -(2 + length) % 4)
        assert self.take(4) == crc32c(head + rest), "CRC of the program under test is wrong"
        return rest[:length]

    def message(self, opcode):
        """A whole message: its first header and all payload."""
        first, payload = None, b""
        while True:
            segment = self.ulpdu()
            assert segment[1] & 0x0F == opcode, f"opcode {segment[1] & 15}, wanted {opcode}: {segment.hex()}"
            header = 14 if segment[0] & 0x80 else 18
            first = first or segment[:header]
            payload += segment[header:]
            if segment[0] & 0x40:
                return first, payload


class Pings(CliTest):
    def ping(self, size, count=100, client=(), server=(), host="127.0.0.1"):
        peer, port = self.rping_server("-V", *server, host=host)
        done = self.ok(run("rping", "-c", "-a", host, "-p", port, "-C", count, "-S", size, "-V", "--json", *client))
        ended = self.ok(peer.finish())
        summary = done.event("summary")
        self.assertEqual((summary["pings"], summary["size"], summary["validated"]), (count, size, True))
        self.assertEqual(set(summary["round_trip_us"]), {"min", "mean", "max"})
        self.assertEqual(ended.event("summary")["pings"], count)
        self.assertEqual(summary["peer_faults"], [])
        return done

    def test_sizes_1_to_64_kib_v4(self):
        for size in (1, 2, 13, 23, 64, 100, 1460, 4096, 65535, 65536):
            with self.subTest(size):
                self.ping(size)

    def test_sizes_1_to_64_kib_v6(self):
        for size in (1, 64, 4096, 65536):
            with self.subTest(size):
                self.ping(size, host="::1")

    def test_every_form(self):
        for client in (["--revision", 1, "--crc"], ["--rtr", "frame"], ["--rtr", "read"], ["--rtr", "send"],
                       ["--rtr", "write"], ["--no-crc"], ["--markers"], ["--ird", 1, "--ord", 1]):
            with self.subTest(client):
                self.ping(4096, 20, client)
        self.ping(65536, 20, ["--markers"], ["--markers"])
        self.ping(65536, 20, ["--no-crc"], ["--no-crc"])
        self.ping(4096, 20, ["--revision", 1, "--rtr", "read"], ["--rtr-expected", "read"])

    def test_revision_1_says_what_is_missing(self):
        peer, port = self.rping_server()
        done = self.ok(run("rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", 1, "--revision", 1))
        for err in (done.err, self.ok(peer.finish()).err):
            self.assertIn("IRD and ORD were not negotiated (MPA revision 1 has no field for them)", err)

    def test_verbose_prints_what_rping_prints(self):
        peer, port = self.rping_server("-v")
        done = self.ok(run("rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", 3, "-S", 30, "-v"))
        self.assertEqual(done.out.splitlines()[:3],
                         [f"ping data: {ping_text(n, 30)[:-1].decode()}" for n in range(3)])
        pings = [event for event in self.ok(peer.finish()).events if event["event"] == "ping"]
        self.assertEqual([ping["ping"] for ping in pings], [0, 1, 2])

    def test_a_persistent_server_serves_many_at_once(self):
        peer, port = self.rping_server("-P", "-V")
        clients = [subprocess.Popen([PARLEY, "rping", "-c", "-a", "127.0.0.1", "-p", str(port), "-C", "50", "-V", "-S",
                                     str(1 + 997 * n)], stdout=subprocess.DEVNULL) for n in range(10)]
        self.assertEqual([client.wait(timeout=LIMIT) for client in clients], [0] * 10)
        summary = self.ok(peer.finish(stop=True)).event("summary")
        self.assertEqual((summary["clients"], summary["pings"], summary["faulty"]), (10, 500, 0))

    def test_endless_pings_end_by_signal(self):
        peer, port = self.rping_server()
        client = self.start("rping", "-c", "-a", "127.0.0.1", "-p", port, "-v")
        client.wait_for("ping")
        done = self.ok(client.finish(stop=True))
        self.assertGreater(done.event("summary")["pings"], 0)
        self.ok(peer.finish())

    def test_every_letter_of_rping_is_taken(self):
        peer, port = self.rping_server("-v", "-V", "-d", "-q", "-C", 2, "-S", 100)
        done = self.ok(run("rping", "-c", "-a", "127.0.0.1", "-I", "127.0.0.1", "-p", port, "-C", 2, "-S", 100, "-v", "-V",
                           "-d", "-q"))
        self.assertIn("client: ping 0: source advertised", done.err)
        self.assertIn("RDMA Read", self.ok(peer.finish()).err)

    def test_pcapng_is_clean(self):
        file = self.path("rping.pcapng")
        self.ping(65536, 5, ["--pcapng", file])
        verdict = json.loads(self.ok(run("pcap", "check", "--json", file)).out)
        self.assertEqual(verdict["connections"][0]["outcome"], "established")


class RawServer(CliTest):
    """The client against rping's server by hand: every octet of the protocol that both must agree on."""

    def serve(self, play, *args):
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
            client = self.start("rping", "-c", "-a", "127.0.0.1", "-p", server.getsockname()[1], *args)
            connection, _ = server.accept()
            with connection:
                peer = RawPeer(connection)
                self.accept(peer)
                play(peer, server)
                self.close(connection)
            return client.finish()

    @staticmethod
    def close(connection):
        """Orderly, unless the other end reset the connection first."""
        try:
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
        except OSError:
            pass

    def accept(self, peer):
        key, flags, revision, data = peer.startup()
        self.assertEqual((key, flags & 0x70, revision), (b"MPA ID Req Frame", 0x50, 2))
        ird, order = struct.unpack(">HH", data[:4])
        self.assertEqual((ird >> 14, order >> 14), (0, 0))  # A, B, C, D: a client of a server
        peer.socket.sendall(b"MPA ID Rep Frame" + struct.pack(">BBHHH", 0x50, 2, 4, order, ird))

    def one_ping(self, peer, number, size, spoil=False):
        header, source = peer.message(3)
        self.assertEqual(header, struct.pack(">BBIIII", 0x41, 0x43, 0, 0, 2 * number + 1, 0))
        to, stag, octets = struct.unpack(">QII", source)
        self.assertEqual(octets, size)
        peer.socket.sendall(untagged(1, 1, number + 1, struct.pack(">IQIIQ", 0x77, 0x1000, octets, stag, to)))
        header, data = peer.message(2)
        self.assertEqual(struct.unpack(">IQ", header[2:]), (0x77, 0x1000))
        self.assertEqual(data, ping_text(number, size))
        peer.socket.sendall(untagged(3, 0, 2 * number + 1, bytes(16)))
        _, sink = peer.message(3)
        source_stag = stag
        to, stag, octets = struct.unpack(">QII", sink)
        self.assertNotEqual(stag, source_stag, "each buffer is registered apart, as by rping")
        if spoil:
            data = data[:-2] + b"?\0"
        peer.socket.sendall(tagged(0, stag, to, data) + untagged(3, 0, 2 * number + 2, bytes(16)))

    def test_the_client_keeps_to_the_protocol(self):
        done = self.serve(lambda peer, _: [self.one_ping(peer, n, 1000) for n in range(3)], "-C", 3, "-S", 1000, "-V")
        self.assertEqual(self.ok(done).event("summary")["pings"], 3)

    def test_the_server_may_not_write_into_the_source(self):
        def play(peer, _):
            to, stag, _ = struct.unpack(">QII", peer.message(3)[1])
            peer.socket.sendall(tagged(0, stag, to, b"x" * 64))
            self.assertEqual(peer.message(7)[1][:2], b"\x01\x02", "Terminate: remote protection, access rights (RFC 5040 §4.8)")
        self.refused(self.serve(play, "-C", 1, "-S", 64), 1, "ccess rights")

    def test_wrong_data_is_told(self):
        done = self.serve(lambda peer, _: self.one_ping(peer, 0, 100, spoil=True), "-C", 1, "-S", 100, "-V")
        self.refused(done, 1, "ping 0: data mismatch at octet 98 of 100")

    def test_a_message_of_another_length_is_told(self):
        def play(peer, _):
            peer.message(3)
            peer.socket.sendall(untagged(3, 0, 1, bytes(17)))
        self.refused(self.serve(play, "-C", 1), 1, "17 octets where rping has 16")

    def test_a_lost_wake_up_is_survived_and_reported(self):
        # As Linux siw: the first FPDU is not looked at until another one comes.
        def play(peer, _):
            first = peer.take(len(untagged(3, 0, 1, bytes(16))))
            nudge = peer.take(len(tagged(0, 1, 0, b"")))
            self.assertEqual(nudge[2:8], struct.pack(">BBI", 0xC1, 0x40, 1))  # a zero-length RDMA Write
            peer.buffer = first + peer.buffer
            self.one_ping(peer, 0, 64)
        done = self.ok(self.serve(play, "-C", 1, "-V", "--nudge-after", "100ms"))
        self.assertIn("lost wake-up", done.event("summary")["peer_faults"][0])
        self.assertIn("peer fault: ", done.err)

    def test_a_silent_server_is_tried_again(self):
        def play(peer, server):
            peer.message(3)
            second, _ = server.accept()
            with second:
                again = RawPeer(second)
                self.accept(again)
                self.one_ping(again, 0, 64)
                self.close(second)
        done = self.ok(self.serve(play, "-C", 1, "--timeout", "300ms", "--nudge-after", "0"))
        self.assertEqual(done.event("summary")["connection_count"], 2)
        self.assertIn("connecting again (1 of 3)", done.err)

    def test_a_server_that_stays_silent_is_given_up(self):
        def play(peer, _):
            try:
                while peer.socket.recv(4096):
                    pass
            except ConnectionResetError:
                pass
        done = self.serve(play, "-C", 1, "--timeout", "200ms", "--nudge-after", "0", "--retry", 0)
        self.refused(done, 1, "did not answer the first message within 200ms")


class RawClient(CliTest):
    """The server against a client by hand."""

    def connect(self, port, request=None):
        peer = RawPeer(socket.create_connection(("127.0.0.1", port)))
        self.addCleanup(peer.socket.close)
        peer.socket.sendall(request or b"MPA ID Req Frame" + struct.pack(">BBHHH", 0x50, 2, 4, 1, 1))
        key, flags, _, _ = peer.startup()
        self.assertEqual((key, flags & 0x20), (b"MPA ID Rep Frame", 0))
        return peer

    def test_the_server_keeps_to_the_protocol(self):
        server, port = self.rping_server("-V")
        peer = self.connect(port)
        for number in range(3):
            data = ping_text(number, 5000)
            peer.socket.sendall(untagged(3, 0, 2 * number + 1, struct.pack(">QII", 0xABCD0000, 0x55, len(data))))
            header, read = peer.message(1)
            self.assertEqual(header, struct.pack(">BBIIII", 0x41, 0x41, 0, 1, number + 1, 0))
            sink, sink_to, octets, stag, to = struct.unpack(">IQIIQ", read)
            self.assertEqual((octets, stag, to), (5000, 0x55, 0xABCD0000))
            peer.socket.sendall(tagged(2, sink, sink_to, data))
            self.assertEqual(len(peer.message(3)[1]), 16)
            peer.socket.sendall(untagged(3, 0, 2 * number + 2, struct.pack(">QII", 0xEF000000, 0x66, len(data))))
            header, written = peer.message(0)
            self.assertEqual(struct.unpack(">IQ", header[2:]), (0x66, 0xEF000000))
            self.assertEqual(written, data)
            self.assertEqual(len(peer.message(3)[1]), 16)
        peer.socket.shutdown(socket.SHUT_WR)
        self.assertEqual(peer.socket.recv(1), b"")
        self.assertEqual(self.ok(server.finish()).event("summary")["pings"], 3)

    def spoil(self, octets, *words):
        server, port = self.rping_server("-V")
        peer = self.connect(port)
        peer.socket.sendall(octets)
        done = server.finish()
        self.assertEqual(done.code, 1, str(done))
        for word in words:
            self.assertIn(word, done.err)

    def test_a_message_of_another_length_is_told(self):
        self.spoil(untagged(3, 0, 1, bytes(15)), "15 octets where rping has 16")

    def test_an_absurd_size_is_refused(self):
        self.spoil(untagged(3, 0, 1, struct.pack(">QII", 0, 1, 0xFFFFFFFF)), "4294967295 octets", "the maximum is 65536")

    def test_a_terminate_under_revision_1_names_the_missing_depths(self):
        # Linux siw's answer to a Read under revision 1, its nibbles swapped: RDMAP, remote operation error, 7.
        server, port = self.rping_server()
        peer = self.connect(port, b"MPA ID Req Frame" + struct.pack(">BBH", 0x40, 1, 0))
        peer.socket.sendall(untagged(3, 0, 1, struct.pack(">QII", 0x1000, 0x55, 64)))
        peer.message(1)
        peer.socket.sendall(untagged(7, 2, 1, bytes.fromhex("20070000")))
        peer.socket.shutdown(socket.SHUT_WR)
        done = server.finish()
        self.assertEqual(done.code, 1)
        for word in ("Terminate", "IRD and ORD were not negotiated", "the client's Send worked"):
            self.assertIn(word, done.err)

    def test_a_client_that_leaves_in_the_middle(self):
        server, port = self.rping_server()
        peer = self.connect(port)
        peer.socket.sendall(untagged(3, 0, 1, struct.pack(">QII", 0x1000, 0x55, 64)))
        peer.message(1)
        peer.socket.close()
        self.assertEqual(server.finish().code, 1)

    def test_a_client_that_breaks_before_its_first_ping_fails_the_server(self):
        server, port = self.rping_server("-P")
        for _ in range(2):
            peer = self.connect(port)
            peer.socket.sendall(bytes.fromhex("ffff"))
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.socket.close()
            server.wait_for("connect_failed")
        done = server.finish(stop=True)
        self.assertEqual(done.code, 1, str(done))
        self.assertEqual(done.event("summary")["faulty"], 2)

    def test_one_client_at_a_time_without_p(self):
        server, port = self.rping_server()
        first = self.connect(port)
        first.socket.sendall(untagged(3, 0, 1, struct.pack(">QII", 0x1000, 0x55, 64)))
        first.message(1)
        done = run("rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", 1)
        self.refused(done, 1, "rejected")
        first.socket.close()
        server.finish()


if __name__ == "__main__":
    main()

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The streams of a ScriptedPeer, driven by hand: what is kept for reports, and what each bound does.
#include <gtest/gtest.h>

#include "tests/unit/tester/kit.hpp"

namespace parley::tester {
namespace {

using namespace std::chrono_literals;
using Command = StreamCommand::Kind;

/// One connected stream, at which a script waits for ever.
struct OneStream : Driven {
  explicit OneStream(Duration patience = 3600s) {
    start(connect_then(peer, [this, patience](TcpStream& stream) -> Task<void> {
      tcp = &stream;
      ended = co_await peer.end(stream, patience);
    }));
    connected(1);
  }
  TcpStream* tcp = nullptr;
  bool ended = false;
};

std::vector<std::string> lines_of(const TcpStream& tcp) {
  std::vector<std::string> out;
  for (const StreamRecord& e : tcp.history()) {
    constexpr std::array<std::string_view, 4> kinds{"octets", "FIN", "RST", "timeout"};
    out.push_back(std::string(e.by_us ? "we: " : "peer: ") + std::string(kinds[static_cast<std::size_t>(e.kind)]) +
                  " " + std::to_string(e.size) + " at " + std::to_string(e.at.time_since_epoch() / 1s));
  }
  return out;
}

using Lines = std::vector<std::string>;

TEST(ScriptedStreams, HistoryHasWhatBothSidesSentAndWhen) {
  OneStream s;
  s.tcp->send(Bytes(3, 1));
  s.now += 1s;
  s.bytes(1, Bytes(5, 2));
  s.now += 1s;
  s.end(1, StreamEnd::fin);
  s.tcp->fin();
  EXPECT_EQ(lines_of(*s.tcp),
            (Lines{"we: octets 3 at 1", "peer: octets 5 at 2", "peer: FIN 0 at 3", "we: FIN 0 at 3"}));
  EXPECT_EQ(s.tcp->history()[1].octets, Bytes(5, 2));
  EXPECT_EQ(s.tcp->received_at(), Instant(2s));
  EXPECT_EQ(s.tcp->ended_at(), Instant(3s));
}

TEST(ScriptedStreams, EachEndOfAStreamIsOneOfItsOwn) {
  struct Case {
    StreamEnd end;
    std::string_view line;
  };
  for (const Case& c : {Case{StreamEnd::fin, "peer: FIN 0 at 1"}, Case{StreamEnd::rst, "peer: RST 0 at 1"},
                        Case{StreamEnd::timeout, "peer: timeout 0 at 1"}}) {
    OneStream s;
    EXPECT_FALSE(s.tcp->ended());
    s.end(1, c.end);
    EXPECT_EQ(lines_of(*s.tcp), Lines{std::string(c.line)});
    EXPECT_EQ(s.tcp->fin_seen(), c.end == StreamEnd::fin);
    EXPECT_EQ(s.tcp->rst_seen(), c.end == StreamEnd::rst);
    EXPECT_EQ(s.tcp->timed_out(), c.end == StreamEnd::timeout);
    EXPECT_EQ(s.tcp->over(), c.end != StreamEnd::fin) << "after a FIN our half goes on";
    EXPECT_TRUE(s.ended);
    s.tcp->reset();
    EXPECT_EQ(s.count(Command::reset), 0U) << "told to the driver at its next turn only";
    s.drain();
    EXPECT_EQ(s.count(Command::reset), c.end == StreamEnd::fin ? 1U : 0U) << "a stream that is gone cannot be reset";
  }
}

TEST(ScriptedStreams, HistoryIsBounded) {
  OneStream s;
  s.bytes(1, Bytes(TcpStream::kept_max - 1, 7));
  s.bytes(1, Bytes(10, 8));
  s.bytes(1, Bytes(10, 9));
  ASSERT_EQ(s.tcp->history().size(), 3U);
  EXPECT_EQ(s.tcp->history()[1].octets, Bytes(1, 8));
  EXPECT_EQ(s.tcp->history()[1].size, 10U);
  EXPECT_TRUE(s.tcp->history()[2].octets.empty());
  EXPECT_EQ(s.tcp->history()[2].size, 10U);
  for (std::size_t i = 3; i < TcpStream::exchanged_max + 2; ++i) s.bytes(1, Bytes(1, 1));
  EXPECT_EQ(s.tcp->history().size(), TcpStream::exchanged_max);
  EXPECT_EQ(s.tcp->received(), TcpStream::kept_max + 19 + TcpStream::exchanged_max - 1);
}

TEST(ScriptedStreams, APeerThatSendsMoreThanIsTakenIsReset) {
  OneStream s;
  s.bytes(1, Bytes(TcpStream::unread_max, 0));
  EXPECT_EQ(s.count(Command::reset), 0U);
  s.tcp->take(1);
  s.bytes(1, Bytes(1, 0));
  EXPECT_EQ(s.tcp->unread().size(), TcpStream::unread_max);
  s.bytes(1, Bytes(1, 0));
  EXPECT_EQ(s.count(Command::reset), 1U);
  EXPECT_TRUE(s.tcp->over());
  EXPECT_TRUE(s.ended);
}

TEST(ScriptedStreams, AScriptThatSendsMoreThanGoesOutIsReset) {
  OneStream s;
  s.tcp->send(Bytes(TcpStream::unsent_max - 1, 0));
  s.tcp->send(Bytes(1, 0));
  EXPECT_FALSE(s.tcp->over());
  s.tcp->send(Bytes(1, 0));
  s.drain();
  EXPECT_TRUE(s.tcp->over());
  EXPECT_EQ(s.count(Command::reset), 1U);
  EXPECT_EQ(s.tcp->sent(), 0U) << "what waited is gone";
}

TEST(ScriptedStreams, WhatWasSentLeavesRoomForMore) {
  OneStream s;
  for (int i = 0; i < 3; ++i) {
    s.tcp->send(Bytes(TcpStream::unsent_max, 0));
    s.write_max = TcpStream::unsent_max;
    s.drain();
  }
  EXPECT_FALSE(s.tcp->over());
  EXPECT_EQ(s.tcp->sent(), 3 * TcpStream::unsent_max);
}

TEST(ScriptedStreams, TakenOctetsAreGoneAndTheOthersStayInOrder) {
  OneStream s;
  s.bytes(1, Bytes{1, 2, 3});
  s.tcp->take(2);
  s.bytes(1, Bytes{4});
  EXPECT_EQ(Bytes(s.tcp->unread().begin(), s.tcp->unread().end()), (Bytes{3, 4}));
  s.tcp->take(100);
  EXPECT_TRUE(s.tcp->unread().empty());
  s.bytes(1, Bytes{5});
  EXPECT_EQ(Bytes(s.tcp->unread().begin(), s.tcp->unread().end()), (Bytes{5}));
  EXPECT_EQ(s.tcp->received(), 5U);
}

TEST(ScriptedStreams, WritesGoOutInOrderAndTheFinAfterThem) {
  OneStream s;
  s.write_max = 2;
  s.tcp->send(Bytes{1, 2, 3});
  s.tcp->send(Bytes{4});
  s.tcp->send({});  // nothing
  s.tcp->fin();
  s.tcp->fin();           // once
  s.tcp->send(Bytes{5});  // too late
  s.drain();
  EXPECT_EQ(s.written, (Bytes{1, 2}));
  s.write(1);  // the stream can be written again
  EXPECT_EQ(s.written, (Bytes{1, 2, 3}));
  EXPECT_EQ(s.count(Command::shutdown), 0U);
  s.drain();
  EXPECT_EQ(s.written, (Bytes{1, 2, 3, 4}));
  EXPECT_EQ(s.count(Command::shutdown), 1U);
  EXPECT_EQ(s.tcp->sent(), 4U);
  EXPECT_EQ(lines_of(*s.tcp), (Lines{"we: octets 3 at 1", "we: octets 1 at 1", "we: FIN 0 at 1"}));
}

// The contract of a StreamMachine (base/stream_port.hpp): a driver may ask about any stream at any time.
TEST(ScriptedStreams, OnlyAStreamWithOctetsToSendGivesAny) {
  OneStream s;
  ConstBytes piece;
  const std::span<ConstBytes> one(&piece, 1);
  EXPECT_EQ(s.peer.gather(99, one), 0U);
  EXPECT_EQ(s.peer.gather(1, one), 0U);
  s.peer.sent(s.now, 99, 1);
  s.peer.sent(s.now, 1, 0);
  EXPECT_EQ(s.tcp->sent(), 0U);
  s.tcp->send(Bytes{1, 2});
  EXPECT_EQ(s.peer.gather(1, {}), 0U);
  EXPECT_EQ(s.peer.gather(1, one), 1U);
  EXPECT_EQ(piece.size(), 2U);
  s.now += 5s;
  s.peer.sent(s.now, 1, 2);
  EXPECT_EQ(s.peer.now(), s.now);
  s.peer.sent(s.now - 1s, 1, 0);
  EXPECT_EQ(s.peer.now(), s.now) << "time does not go back";
  EXPECT_EQ(s.peer.poll_ready(), 0U) << "it was written already";
  s.peer.handle_bytes(s.now, 99, Bytes{1});
  s.peer.handle_end(s.now, 99, StreamEnd::rst);
  EXPECT_FALSE(s.tcp->ended());
}

TEST(ScriptedStreams, AStreamKnowsItsAddresses) {
  OneStream s;
  EXPECT_EQ(s.tcp->info().local, address_of(1, 40000));
  EXPECT_EQ(s.tcp->info().peer, address_of(2, 7471));
}

TEST(ScriptedStreams, AFinWithNothingToSendGoesAtOnce) {
  OneStream s;
  s.tcp->fin();
  s.drain();
  EXPECT_EQ(s.count(Command::shutdown), 1U);
  EXPECT_EQ(s.commands.back().id, 1U);
}

TEST(ScriptedStreams, AResetEndsTheStreamOnce) {
  OneStream s;
  s.tcp->send(Bytes{1});
  s.now += 2s;
  s.peer.handle_deadline(s.now);
  s.tcp->reset();
  s.tcp->reset();
  s.tcp->send(Bytes{2});
  s.tcp->fin();
  s.drain();
  EXPECT_EQ(s.count(Command::reset), 1U);
  EXPECT_EQ(s.count(Command::shutdown), 0U);
  EXPECT_TRUE(s.written.empty()) << "a reset drops what waits";
  EXPECT_EQ(s.tcp->ended_at(), Instant(3s));
  EXPECT_EQ(lines_of(*s.tcp), (Lines{"we: octets 1 at 1", "we: RST 0 at 3"}));
  s.bytes(1, Bytes{3});  // on its way when the stream was reset
  EXPECT_EQ(s.tcp->received(), 0U);
}

TEST(ScriptedStreams, AWaitEndsWhenItsPatienceDoes) {
  OneStream s(10s);
  EXPECT_EQ(s.peer.next_deadline(), Instant(11s));
  s.after(9999ms);
  EXPECT_FALSE(s.peer.done());
  s.after(1ms);
  EXPECT_TRUE(s.peer.done());
  EXPECT_FALSE(s.ended);
  EXPECT_EQ(s.peer.next_deadline(), never);
}

TEST(ScriptedStreams, AScriptBeginsAtTheTimeGiven) {
  Driven d;
  d.start([](ScriptedPeer& peer) -> Task<void> { co_await peer.sleep(10s); }(d.peer));
  EXPECT_EQ(d.peer.next_deadline(), Instant(11s));
  d.start([](ScriptedPeer& peer) -> Task<void> { co_await peer.sleep(0s); }(d.peer));
  EXPECT_TRUE(d.peer.done()) << "no patience: no wait";
  d.start([](ScriptedPeer& peer) -> Task<void> { co_await peer.sleep(10s); }(d.peer));
  d.start([](ScriptedPeer&) -> Task<void> { co_return; }(d.peer));
  EXPECT_EQ(d.peer.next_deadline(), never) << "the script before it waits no more";
}

TEST(ScriptedStreams, AWaitForEverHasNoDeadline) {
  OneStream s(Duration::max());
  EXPECT_EQ(s.peer.next_deadline(), never);
  s.after(1000000s);
  EXPECT_FALSE(s.peer.done());
  s.peer.stop();
  EXPECT_TRUE(s.peer.done());
}

Task<void> connect_and_say(ScriptedPeer& peer, std::string& said) {
  TcpStream* tcp = co_await peer.connect(address_of(2, 7471), 5s);
  said = tcp != nullptr ? "connected" : peer.why();
}

TEST(ScriptedStreams, AConnectionThatFailsIsToldWithItsReason) {
  Driven d;
  std::string said;
  d.start(connect_and_say(d.peer, said));
  ASSERT_EQ(d.commands.size(), 1U);
  EXPECT_EQ(d.commands[0].kind, Command::open);
  EXPECT_EQ(d.commands[0].address, address_of(2, 7471));
  d.peer.handle_connect_failed(d.now, 1, std::make_error_code(std::errc::connection_refused));
  d.drain();
  EXPECT_EQ(said, "Connection refused");
  d.peer.forget_streams();
  d.drain();
  EXPECT_EQ(d.count(Command::reset), 0U) << "there is nothing to give up";
}

TEST(ScriptedStreams, AConnectionThatNobodyAnswersIsGivenUp) {
  Driven d;
  std::string said;
  d.start(connect_and_say(d.peer, said));
  d.after(5s);
  EXPECT_EQ(said, "no answer to the SYN");
  EXPECT_EQ(d.count(Command::reset), 1U);
  d.connected(1);  // too late: the stream is over
  EXPECT_EQ(said, "no answer to the SYN");
  d.peer.forget_streams();
  d.drain();
  EXPECT_EQ(d.count(Command::reset), 1U) << "once";
}

TEST(ScriptedStreams, AScriptHasABoundedNumberOfConnections) {
  Driven d;
  std::string why;
  std::size_t connected = 0;
  d.start([](ScriptedPeer& peer, std::string& refused, std::size_t& n) -> Task<void> {
    for (;; ++n) {
      TcpStream* tcp = co_await peer.connect(address_of(2, 7471), 5s);
      if (tcp != nullptr) continue;
      if (!refused.empty()) co_return;
      refused = peer.why();
      peer.forget_streams();
    }
  }(d.peer, why, connected));
  StreamId id = 1;
  for (; id < 2 * ScriptedPeer::streams_max; id += 2) d.connected(id);
  EXPECT_EQ(why, "too many connections in one script");
  EXPECT_EQ(connected, ScriptedPeer::streams_max + 1);
  EXPECT_EQ(d.count(Command::reset), ScriptedPeer::streams_max) << "those that were forgotten";
  EXPECT_EQ(d.count(Command::open), ScriptedPeer::streams_max + 1) << "and the next one goes out";
}

Task<void> listen_and_say(ScriptedPeer& peer, std::optional<Address>& at, std::string& said) {
  at = co_await peer.listen(address_of(1, 0), 5s);
  said = peer.why();
}

TEST(ScriptedStreams, AListenerTellsItsAddressOrWhyThereIsNone) {
  Driven d;
  std::optional<Address> at;
  std::string said;
  d.start(listen_and_say(d.peer, at, said));
  ASSERT_EQ(d.count(Command::listen), 1U);
  d.peer.handle_listening(d.now, 99, address_of(1, 5));  // another one
  EXPECT_FALSE(d.peer.done());
  d.peer.handle_listening(d.now, 1, address_of(1, 6));
  EXPECT_EQ(at, address_of(1, 6));
  d.start(listen_and_say(d.peer, at, said));
  EXPECT_EQ(d.commands[1].kind, Command::close) << "the one before";
  EXPECT_EQ(d.commands[1].id, 1U);
  d.peer.handle_listen_failed(d.now, 1, std::make_error_code(std::errc::permission_denied));
  EXPECT_FALSE(d.peer.done()) << "that was of the one before";
  d.peer.handle_listen_failed(d.now, 3, std::make_error_code(std::errc::address_in_use));
  EXPECT_FALSE(at);
  EXPECT_EQ(said, "Address already in use");
  d.start(listen_and_say(d.peer, at, said));
  EXPECT_FALSE(d.peer.done()) << "the next one may succeed";
  d.peer.handle_listening(d.now, 5, address_of(1, 7));
  EXPECT_EQ(at, address_of(1, 7));
}

/// A listener, and a script that accepts when it is told to.
struct Listener : Driven {
  Listener() {
    start([](ScriptedPeer& p, std::optional<Address>& where) -> Task<void> {
      where = co_await p.listen(address_of(1, 7471), 5s);
    }(peer, at));
    peer.handle_listening(now, 1, address_of(1, 7471));
  }
  bool come(StreamId id, StreamId listener = 1) {
    const bool accepted = peer.handle_accepted(now, listener, id, {address_of(1, 7471), address_of(2, 4000), 1200});
    drain();
    return accepted;
  }
  TcpStream* accept() {
    start([](ScriptedPeer& p, TcpStream*& out) -> Task<void> { out = co_await p.accept(5s); }(peer, taken));
    if (!peer.done()) after(5s);
    return taken;
  }
  std::optional<Address> at;
  TcpStream* taken = nullptr;
};

TEST(ScriptedStreams, PeersAreAcceptedInTheOrderInWhichTheyCame) {
  Listener l;
  EXPECT_FALSE(l.come(2, 77)) << "of no listener of this script";
  EXPECT_TRUE(l.come(4));
  EXPECT_TRUE(l.come(6));
  EXPECT_EQ(l.peer.waiting(), 2U);
  l.accept()->send(Bytes{4});
  EXPECT_EQ(l.taken->info().emss, 1200);
  EXPECT_EQ(l.taken->received_at(), Instant(1s));
  EXPECT_EQ(l.now, Instant(1s)) << "who waits already is there at once";
  EXPECT_EQ(l.peer.waiting(), 1U);
  l.peer.drop_waiting();
  l.drain();
  ASSERT_EQ(l.count(Command::reset), 1U);
  EXPECT_EQ(l.commands.back().id, 6U);
  EXPECT_EQ(l.written, Bytes{4});
  EXPECT_EQ(l.accept(), nullptr);
  EXPECT_EQ(l.peer.why(), "no peer connected");
}

TEST(ScriptedStreams, MorePeersThanMayWaitAreRefused) {
  Listener l;
  StreamId id = 0;
  for (std::size_t i = 0; i < ScriptedPeer::waiting_max; ++i) EXPECT_TRUE(l.come(id += 2));
  EXPECT_FALSE(l.come(id += 2));
  ASSERT_NE(l.accept(), nullptr);
  EXPECT_TRUE(l.come(id += 2));
}

TEST(ScriptedStreams, NoMorePeersThanStreamsAreAccepted) {
  Listener l;
  StreamId id = 0;
  for (std::size_t i = 0; i < ScriptedPeer::streams_max; ++i) {
    EXPECT_TRUE(l.come(id += 2));
    ASSERT_NE(l.accept(), nullptr);
  }
  EXPECT_FALSE(l.come(id += 2));
  l.peer.forget_stream(*l.taken);
  EXPECT_TRUE(l.come(id += 2));
}

TEST(ScriptedStreams, AScriptThatWaitsForAPeerGoesOnWhenItComes) {
  Listener l;
  l.start([](ScriptedPeer& p, TcpStream*& out) -> Task<void> { out = co_await p.accept(5s); }(l.peer, l.taken));
  EXPECT_FALSE(l.peer.done());
  EXPECT_TRUE(l.come(2));
  EXPECT_TRUE(l.peer.done());
  EXPECT_NE(l.taken, nullptr);
}

TEST(ScriptedStreams, AForgottenStreamIsResetAndNoLongerWaits) {
  Listener l;
  EXPECT_TRUE(l.come(2));
  TcpStream* first = l.accept();
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(l.come(4));
  l.peer.forget_stream(*first);
  l.drain();
  EXPECT_EQ(l.count(Command::reset), 1U);
  EXPECT_EQ(l.commands.back().id, 2U);
  EXPECT_EQ(l.peer.waiting(), 1U);
  l.peer.forget_streams();
  l.drain();
  EXPECT_EQ(l.count(Command::reset), 2U);
  EXPECT_EQ(l.peer.waiting(), 0U);
  l.bytes(4, Bytes{1});  // nobody's any more
}

}  // namespace
}  // namespace parley::tester

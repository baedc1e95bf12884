// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Scripts against Parley's own stack in the simulator, and the octets they are made of.
#include "tester/scripted_peer.hpp"

#include <gtest/gtest.h>

#include "parley/sim.hpp"
#include "tester/frame_reader.hpp"
#include "tester/frames.hpp"
#include "tests/unit/verbs_kit.hpp"

namespace parley::tester {
namespace {

using namespace std::chrono_literals;

/// A host that listens, or connects to `to`, and keeps its events.
struct Parley final : sim::App {
  std::optional<Address> to;
  mpa::Options mpa;
  void on_start(sim::Host& host) override {
    verbs = std::make_unique<Verbs>(host.device());
    if (to) {
      id = *host.cm().connect(*to, {.transport = mpa, .qp = verbs->qp()});
    } else {
      listener = *host.cm().listen(Address::any(Address::Family::v4, 7471), {.transport = mpa});
    }
  }
  void on_crash(sim::Host&) override {}
  void on_turn(sim::Host& host) override {
    while (auto event = host.cm().poll_event()) {
      if (auto* asked = std::get_if<cm::ConnectRequest>(&*event)) {
        id = asked->id;
        auto qp = id.create_qp(verbs->qp());
        EXPECT_TRUE(qp && verbs->recv(**qp, 0, 4096));
        EXPECT_TRUE(id.accept());
      }
      established |= std::holds_alternative<cm::Established>(*event);
      failed |= std::holds_alternative<cm::ConnectFailed>(*event);
    }
    verbs->poll();
  }
  void on_timer(sim::Host&, std::uint64_t) override {}
  std::unique_ptr<Verbs> verbs;
  cm::Id listener, id;
  bool established = false, failed = false;
};

struct Pair {
  explicit Pair(bool parley_connects, const mpa::Options& mpa = {}) : world(1) {
    a = *world.add_host("a");
    b = *world.add_host("b");
    EXPECT_TRUE(world.add_link(a->id(), b->id()));
    a->set_machine(&peer);
    parley.mpa = mpa;
    if (parley_connects) parley.to = with_port(a->address(), 7471);
    b->set_app(&parley);
  }
  static Address with_port(Address address, std::uint16_t port) {
    address.port = port;
    return address;
  }
  Address server() { return with_port(b->address(), 7471); }
  void run(Task<void> script) {
    peer.start(world.now(), std::move(script));
    EXPECT_TRUE(world.run_until([&] { return peer.done(); }, 60s));
    world.run_for(1s);
  }
  sim::World world;
  ScriptedPeer peer;
  Parley parley;
  sim::Host *a = nullptr, *b = nullptr;
};

Task<void> ask_and_send(ScriptedPeer& peer, Address server, std::vector<std::string>& received) {
  TcpStream* line = co_await peer.connect(server, 5s);
  if (line == nullptr) co_return;
  FrameReader reader(peer, *line);
  line->send(startup({.flags = PARLEY_MPA_FLAG_C}));
  const Received reply = co_await reader.startup(5s);
  received.push_back(reply.text());
  FpduWriter out(true, false);
  line->send(out.write(segment(send_header(1), Bytes{1, 2, 3, 4})));
  line->send(out.write(segment(send_header(9))));  // RFC 5041 §5.1: 2 is due
  reader.fpdus(true, false);
  const Received answer = co_await reader.fpdu(5s);
  received.push_back(answer.text());
  const Received end = co_await reader.fpdu(20s);
  received.push_back(end.text());
}

TEST(ScriptedPeer, AsksALiveResponderAndHearsItsAnswers) {
  Pair p(false);
  std::vector<std::string> received;
  p.run(ask_and_send(p.peer, p.server(), received));
  ASSERT_EQ(received.size(), 3U);
  EXPECT_EQ(received[0], "MPA Reply rev=1 flags=40 pd=0");
  EXPECT_EQ(received[1], "Terminate 12 03 (untagged: invalid MSN, out of range; MD)");
  EXPECT_EQ(received[2], "FIN");
  ASSERT_FALSE(p.parley.verbs->done.empty());
  EXPECT_EQ(p.parley.verbs->done.front().byte_len, 4U);
}

Task<void> answer_badly(ScriptedPeer& peer, std::vector<std::string>& received) {
  (void)co_await peer.listen(Address::any(Address::Family::v4, 7471), 1s);
  TcpStream* line = co_await peer.accept(5s);
  if (line == nullptr) co_return;
  FrameReader reader(peer, *line);
  const Received request = co_await reader.startup(5s);
  received.push_back(request.text());
  line->send(startup({.key = PARLEY_MPA_KEY_REQ, .flags = request.flags}));
  const Received end = co_await reader.anything(5s);
  received.push_back(end.text());
}

TEST(ScriptedPeer, AnswersALiveInitiator) {
  mpa::Options mpa;
  mpa.revision = 1;
  Pair p(true, mpa);
  std::vector<std::string> received;
  p.run(answer_badly(p.peer, received));
  ASSERT_EQ(received.size(), 2U);
  EXPECT_EQ(received[0], "MPA Request rev=1 flags=40 pd=0");
  EXPECT_TRUE(received[1] == "FIN" || received[1] == "RST") << received[1];
  EXPECT_TRUE(p.parley.failed);
}

Task<void> wait_in_vain(ScriptedPeer& peer, Address server, std::vector<std::string>& received) {
  TcpStream* nobody = co_await peer.connect(Pair::with_port(server, 9), 5s);
  received.push_back(nobody == nullptr ? peer.why() : "connected");
  TcpStream* line = co_await peer.connect(server, 5s);
  if (line == nullptr) co_return;
  FrameReader reader(peer, *line);
  const Received nothing = co_await reader.startup(500ms);
  received.push_back(nothing.text());
  line->send(Bytes{'M', 'P'});
  line->fin();
  line->send(Bytes{'A'});  // too late, and so dropped
  const Received end = co_await reader.startup(10s);
  received.push_back(end.text());
  received.push_back(std::to_string(line->sent()));
}

TEST(ScriptedPeer, EndsEachWaitInTime) {
  Pair p(false);
  std::vector<std::string> received;
  p.run(wait_in_vain(p.peer, p.server(), received));
  ASSERT_EQ(received.size(), 4U);
  EXPECT_NE(received[0], "connected");
  EXPECT_EQ(received[1], "silence");
  EXPECT_TRUE(received[2] == "FIN" || received[2] == "RST") << received[2];
  EXPECT_EQ(received[3], "2");
}

}  // namespace
}  // namespace parley::tester

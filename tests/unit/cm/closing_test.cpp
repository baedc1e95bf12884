// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Ends under pressure: peers that do not read, peers that do not stop asking, deadlines beyond the clock's end, and ids
// destroyed while octets are still owed. RFC 5044 §7.2, RFC 5040 §5.4 and §6.2.1.
#include <set>

#include "mpa/framer.hpp"
#include "parley/wire/mpa.h"
#include "tests/unit/cm/test_pair.hpp"
#include "wire/mpa.hpp"
#include "wire/rdmap.hpp"

namespace parley::closing_test {
namespace {

using namespace testing_net;
using testing_net::Host;

// RFC 5044 §7.1.2 rule 2: the rejected peer's connection ends even if it never takes the Reply.
TEST(CmClosing, ARejectionThatThePeerDoesNotReadEndsAfterLinger) {
  Net net({.window = 0});
  Host& b = net.add_host(2);
  ASSERT_TRUE(b.cm.listen(Address::any(Address::Family::v4, 7471)));
  net.settle();
  End& raw = net.raw_connect(b.last<cm::Listening>()->local);
  net.settle();
  b.on_request = [](cm::ConnectRequest& request) {
    ASSERT_TRUE(request.id.reject());
    request.id.destroy();
  };
  raw.send(*wire::MpaFrame{.key = wire::MpaKey::req, .flags = PARLEY_MPA_FLAG_C, .revision = 1}.emit());
  net.run_for(30s);
  EXPECT_TRUE(raw.rst_in);
  EXPECT_EQ(b.provider->endpoint_count(), 1U) << "only the listener is left";
}

TEST(CmClosing, TimesBeyondTheClocksEndAreForEver) {
  cm::IwarpProviderOptions provider;
  provider.linger = Duration::max();
  Pair p({}, provider);
  const Address to = p.listen();
  p.accept_all();
  auto id = p.a.cm.connect(to, {.qp = p.va.qp(), .transport_timeout = Duration::max()});
  ASSERT_TRUE(id);
  p.ca = *id;
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Established>() != nullptr; }));
  p.exchange();
  ASSERT_TRUE(p.ca.disconnect());
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Disconnected>() != nullptr; }));
  EXPECT_TRUE(p.a.last<cm::Disconnected>()->graceful) << p.a.last<cm::Disconnected>()->why.to_string();
}

// RFC 5040 §5.4: the Terminate is the last message of our half, and that was over before the error came.
TEST(CmClosing, AnErrorBehindOurFinClaimsNoTerminate) {
  Pair p;
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {.rtr = mpa::Rtr::read});
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  std::size_t written = 0;
  p.net.spy = [&](End& from, ConstBytes octets) { written += from.host == &p.a ? octets.size() : 0; };
  ASSERT_TRUE(p.ca.disconnect());
  ASSERT_TRUE(p.vb.send(*p.cb.qp(), 0, 100));  // crosses the FIN, and finds no receive
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Disconnected>() != nullptr; }));
  const cm::Disconnected& told = *p.a.last<cm::Disconnected>();
  EXPECT_FALSE(told.graceful);
  expect_text(told.why, cm::step::data, Errc::malformed, "192.0.2.2:7471");
  EXPECT_EQ(told.terminate(), nullptr);
  EXPECT_FALSE(parley::iwarp::queue_pair(p.ca.qp())->terminate().has_value());
  EXPECT_EQ(written, 0U);
}

// disconnect() ends our half whatever the peer goes on asking for.
TEST(CmClosing, APeerThatKeepsReadingCannotHoldOffTheEnd) {
  Pair p({.window = 8192});
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {.rtr = mpa::Rtr::write}, {}, 8, 8);
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  std::size_t asked = 0;
  const auto ask = [&] {  // b keeps Reads of a's memory under way
    const Sge sink = p.vb.at(0, 4096);
    while (p.cb.qp()->post_send(
        {.opcode = SendWr::Opcode::rdma_read, .sges = {&sink, 1}, .remote_addr = p.va.mr.addr, .rkey = p.va.mr.rkey}))
      ++asked;
  };
  const auto keep_asking = [&] {
    p.vb.done.clear();
    (void)p.vb.poll();
    ask();
    (void)p.b.turn();
  };
  (void)p.net.run_until([&] { return keep_asking(), asked > 100; });
  ASSERT_TRUE(p.ca.disconnect());
  const Instant start = p.net.now;
  (void)p.net.run_until([&] { return keep_asking(), p.a.last<cm::Disconnected>() || p.net.now - start > 100ms; });
  ASSERT_NE(p.a.last<cm::Disconnected>(), nullptr) << asked << " Reads held it off";
  EXPECT_TRUE(p.a.last<cm::Disconnected>()->graceful) << p.a.last<cm::Disconnected>()->why.to_string();
}

// Both sides ask for something and close at once: each waits for its own answer and gives the other's.
TEST(CmClosing, ReadsThatCrossWhileBothSidesCloseAreAnswered) {
  Pair p;
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {.rtr = mpa::Rtr::write}, {}, 8, 8);
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  const auto read = [](Verbs& own, cm::Id id, const MemoryRegion& source) {
    const Sge sink = own.at(0, 4096);
    ASSERT_TRUE(id.qp()->post_send(
        {.opcode = SendWr::Opcode::rdma_read, .sges = {&sink, 1}, .remote_addr = source.addr, .rkey = source.rkey}));
    ASSERT_TRUE(id.disconnect());
  };
  read(p.va, p.ca, p.vb.mr);
  read(p.vb, p.cb, p.va.mr);
  const auto both = [&] { return p.a.last<cm::Disconnected>() && p.b.last<cm::Disconnected>(); };
  ASSERT_TRUE(p.net.run_until(both));
  EXPECT_TRUE(p.a.last<cm::Disconnected>()->graceful);
  EXPECT_TRUE(p.b.last<cm::Disconnected>()->graceful);
  EXPECT_TRUE(p.va.saw(WcOpcode::rdma_read));
  EXPECT_TRUE(p.vb.saw(WcOpcode::rdma_read));
}

/// A provider driven by hand, with one accepted connection whose peer is the test.
struct ByHand {
  ByHand() : provider(cm::make_iwarp_provider()), cm(*provider), verbs(cm.device(), 1 << 20) {
    listener = *cm.listen(Address::v4(192, 0, 2, 1, 7471));
    provider->handle_deadline(now);
    StreamCommand command;
    EXPECT_TRUE(provider->poll_command(command));
    provider->handle_listening(now, command.id, command.address);
    const Address local = Address::v4(192, 0, 2, 1, 7471), peer = Address::v4(192, 0, 2, 2, 50000);
    EXPECT_TRUE(provider->handle_accepted(now, command.id, stream, {.local = local, .peer = peer, .emss = 65483}));
    feed(*wire::MpaFrame{.key = wire::MpaKey::req, .flags = PARLEY_MPA_FLAG_C, .revision = 1}.emit());
    EXPECT_TRUE(event<cm::Listening>());
    auto request = event<cm::ConnectRequest>();
    EXPECT_TRUE(request);
    id = request->id;
    EXPECT_TRUE(id.accept({.qp = verbs.qp()}));
    provider->handle_deadline(now);
    (void)take();
    feed(fpdu({0xC1, 0x40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}));  // a zero-length Write lifts the fence
    EXPECT_TRUE(event<cm::Established>());
  }
  void feed(ConstBytes octets) { provider->handle_bytes(now, stream, octets); }
  Bytes fpdu(const Bytes& ulpdu) {
    Bytes out(framer.wire_size(ulpdu.size()));
    framer.frame(ulpdu, {}, out);
    return out;
  }
  std::size_t framed() {
    std::size_t octets = 0;
    used = provider->gather(stream, pieces);
    for (std::size_t i = 0; i < used; ++i) octets += pieces[i].size();
    return octets;
  }
  /// One write of the driver, taken whole.
  Bytes write() {
    while (provider->poll_ready() != 0) {
    }
    const std::size_t octets = framed();
    Bytes out;
    for (std::size_t i = 0; i < used; ++i) out.insert(out.end(), pieces[i].begin(), pieces[i].end());
    provider->sent(now, stream, octets);
    return out;
  }
  Bytes take() {
    Bytes out;
    for (Bytes more = write(); !more.empty(); more = write()) out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  template <class E>
  std::optional<E> event() {
    auto e = cm.poll_event();
    if (!e || !std::holds_alternative<E>(*e)) return std::nullopt;
    return std::get<E>(*e);
  }

  Instant now{1s};
  StreamId stream = 2;
  std::array<ConstBytes, 64> pieces;
  std::size_t used = 0;
  std::unique_ptr<cm::IwarpProvider> provider;
  cm::Manager cm;
  Verbs verbs;
  mpa::Framer framer{{.crc = true, .markers = false, .emss = 1460}};
  cm::Id listener, id;
};

// RFC 5040 §5.4: a Terminate is the last message; the id's user need not stay for it, however much stands before it.
TEST(CmClosing, ATerminateLeavesBehindAFullOutputAlthoughTheIdIsDestroyed) {
  ByHand t;
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(t.verbs.send(*t.id.qp(), 0, 1 << 20));
  for (int i = 0; i < 5; ++i) (void)t.write();  // until as much as possible is framed ahead
  ASSERT_GE(t.framed(), 256U << 10);            // and TCP takes none of it
  Bytes broken = t.fpdu({0xC1, 0x40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0});
  broken.back() ^= 1;
  t.feed(broken);
  ASSERT_TRUE(t.event<cm::Disconnected>());
  t.id.destroy();
  const Bytes out = t.take();
  ASSERT_GT(out.size(), 28U) << "what was framed leaves whole";
  // The last FPDU: 22 octets, DDP control 41, RDMAP control 47, and the Terminate of RFC 5044 §8: 20 02.
  const Bytes last(out.end() - 28, out.end());
  EXPECT_EQ(Bytes(last.begin(), last.begin() + 4), (Bytes{0x00, 0x16, 0x41, 0x47}));
  EXPECT_EQ(Bytes(last.begin() + 20, last.begin() + 24), (Bytes{0x20, 0x02, 0x00, 0x00}));
}

// For its user the id has gone with destroy(), although the connection lasts until its last octets have left.
TEST(CmClosing, AnIdDestroyedWhileOctetsAreOwedIsStale) {
  ByHand t;
  Bytes broken = t.fpdu({0xC1, 0x40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0});
  broken.back() ^= 1;
  t.feed(broken);
  ASSERT_TRUE(t.event<cm::Disconnected>());
  cm::Id stale = t.id;
  EXPECT_EQ(*stale.peer_address(), Address::v4(192, 0, 2, 2, 50000));
  const std::size_t endpoints = t.provider->endpoint_count();
  t.id.destroy();
  ASSERT_EQ(t.provider->endpoint_count(), endpoints) << "the Terminate has not left";
  for (const Result<Address>& address : {stale.peer_address(), stale.local_address()}) {
    ASSERT_FALSE(address);
    EXPECT_EQ(address.error(), make_error_code(Errc::wrong_state));
  }
  EXPECT_EQ(stale.qp(), nullptr);
  EXPECT_EQ(stale.create_qp(t.verbs.qp()).error(), make_error_code(Errc::wrong_state));
  stale.destroy();
  EXPECT_EQ(t.take().size(), 28U) << "the Terminate leaves all the same";
}

/// Why a connection that still has octets to send is under a deadline.
enum class Ending { disconnect, fin_of_the_peer, terminate };
class SlowEnd : public ::testing::TestWithParam<Ending> {};

// RFC 5044 §7.2: linger is a bound on standing still. Whoever reads slowly gets everything; who stops does not.
TEST_P(SlowEnd, LastsAsLongAsThePeerTakesOctets) {
  ByHand t;
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(t.verbs.send(*t.id.qp(), 0, 1 << 20));
  switch (GetParam()) {
    case Ending::disconnect: ASSERT_TRUE(t.id.disconnect()); break;
    case Ending::fin_of_the_peer: t.provider->handle_end(t.now, t.stream, StreamEnd::fin); break;
    case Ending::terminate:
      for (int i = 0; i < 5; ++i) (void)t.write();  // until as much as possible is framed ahead
      (void)t.framed();
      Bytes broken = t.fpdu({0xC1, 0x40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0});
      broken.back() ^= 1;
      t.feed(broken);
      ASSERT_TRUE(t.event<cm::Disconnected>());
  }
  t.provider->handle_deadline(t.now);
  StreamCommand command;
  for (int i = 0; i < 4; ++i) {  // each within the five seconds, all of them far beyond
    t.now += 4s;
    t.provider->handle_deadline(t.now);
    ASSERT_FALSE(t.provider->poll_command(command)) << "after " << 4 * (i + 1) << " s";
    ASSERT_FALSE(t.cm.poll_event()) << "after " << 4 * (i + 1) << " s";
    ASSERT_GT(t.framed(), 1000U);
    t.provider->sent(t.now, t.stream, 1000);
  }
  t.now += 5s;
  t.provider->handle_deadline(t.now);
  ASSERT_TRUE(t.provider->poll_command(command)) << "and then no octet for all of linger";
  EXPECT_EQ(command.kind, StreamCommand::Kind::reset);
  EXPECT_EQ(t.event<cm::Disconnected>().has_value(), GetParam() != Ending::terminate);
}

INSTANTIATE_TEST_SUITE_P(CmClosing, SlowEnd,
                         ::testing::Values(Ending::disconnect, Ending::fin_of_the_peer, Ending::terminate),
                         testing::PrintToStringParamName());

/// Calls in any order, ends at any moment, octets that mean nothing: hosts that know nothing of each other's state.
class AnyOrder : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  std::uint64_t random(std::uint64_t below) {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return (state_ >> 33) % below;
  }

  void SetUp() override {
    state_ = GetParam();
    net_.emplace(
        NetOptions{.segment = random(2) ? std::size_t{0} : 97, .seed = random(2), .window = 1 + random(20000)});
    const cm::IwarpProviderOptions provider{.linger = 1s, .half_close_grace = random(2) ? 1ms : 0ms};
    for (const std::size_t side : {0, 1}) {
      hosts_[side] = &net_->add_host(static_cast<std::uint8_t>(side + 1), provider);
      verbs_[side] = std::make_unique<Verbs>(hosts_[side]->cm.device());
      ids_[side].push_back(*hosts_[side]->cm.listen(Address::any(Address::Family::v4, 7471)));
      net_->settle();
      to_.push_back(hosts_[side]->last<cm::Listening>()->local);
    }
  }

  void take_events(std::size_t side) {
    for (cm::Event& event : std::exchange(hosts_[side]->events, {}))
      std::visit([&](auto& e) { take_event(side, e); }, event);
  }

  template <class E>
  void take_event(std::size_t side, E& e) {
    const std::uint64_t id = e.id.number();
    EXPECT_FALSE(ended_[side].contains(id)) << "an event after the end of an id";
    if constexpr (std::is_same_v<E, cm::ConnectRequest>) ids_[side].push_back(e.id);
    if constexpr (std::is_same_v<E, cm::Established>) ++established_;
    if constexpr (std::is_same_v<E, cm::Rejected> || std::is_same_v<E, cm::ConnectFailed> ||
                  std::is_same_v<E, cm::Disconnected>)
      ended_[side].insert(id);
  }

  void connect(std::size_t side) {
    mpa::Options mpa;
    mpa.revision = static_cast<std::uint8_t>(1 + random(2));
    mpa.markers = random(4) == 0;
    if (mpa.revision == 1 && random(2))
      mpa.rtr = mpa::Rtr::frame;
    else if (random(2))
      mpa.rtr = random(2) ? mpa::Rtr::read : mpa::Rtr::write;
    auto made = hosts_[side]->cm.connect(to_[random(2)], {.transport = mpa, .qp = verbs_[side]->qp()});
    if (made) ids_[side].push_back(*made);
  }

  void post_tagged(std::size_t side, QueuePair& qp, const Sge& sge) {
    (void)qp.post_send({.opcode = random(2) ? SendWr::Opcode::rdma_read : SendWr::Opcode::rdma_write,
                        .sges = {&sge, 1},
                        .remote_addr = verbs_[1 - side]->mr.addr,
                        .rkey = verbs_[1 - side]->mr.rkey});
  }

  /// A peer that is no host: octets and ends as they come.
  void raw_turn() {
    if (raws_.empty()) return;
    End& raw = *raws_[random(raws_.size())];
    if (!raw.up || raw.closed || raw.fin_out || raw.other->closed) return;
    const auto octet = [this] { return static_cast<std::uint8_t>(random(256)); };
    switch (random(4)) {
      case 0: raw.fin(); break;
      case 1: raw.rst(); break;
      case 2: raw.send(Bytes(random(64) + 1, octet())); break;
      default: raw.send(*wire::MpaFrame{.key = wire::MpaKey::req, .flags = octet(), .revision = 1}.emit());
    }
  }

  void turn() {
    const std::size_t side = random(2);
    take_events(side);
    cm::Id id = ids_[side][random(ids_[side].size())];
    QueuePair* const qp = id.qp();
    const Sge sge = verbs_[side]->at(random(4096), random(20000));
    switch (random(14)) {
      case 0: connect(side); break;
      case 1:
      case 2: (void)id.accept({.qp = verbs_[side]->qp()}); break;
      case 3: (void)id.reject(); break;
      case 4: (void)id.disconnect(); break;
      case 5:
        if (id != ids_[side][0]) id.destroy();
        break;
      case 6:
      case 7:
        if (qp != nullptr) (void)qp->post_send({.sges = {&sge, 1}});
        break;
      case 8:
        if (qp != nullptr) (void)qp->post_recv({.sges = {&sge, 1}});
        break;
      case 9:
        if (qp != nullptr) post_tagged(side, *qp, sge);
        break;
      case 10: raws_.push_back(&net_->raw_connect(to_[side])); break;
      case 11: raw_turn(); break;
      case 12: net_->run_for(Duration(random(30'000'000))); break;
      default: net_->settle();
    }
    (void)verbs_[side]->poll();
    verbs_[side]->done.clear();
  }

  std::uint64_t state_ = 0;
  std::optional<Net> net_;
  std::array<Host*, 2> hosts_{};
  std::array<std::unique_ptr<Verbs>, 2> verbs_;
  std::array<std::vector<cm::Id>, 2> ids_;
  std::vector<End*> raws_;
  std::vector<Address> to_;
  std::size_t established_ = 0;
  std::array<std::set<std::uint64_t>, 2> ended_;
};

TEST_P(AnyOrder, LeavesNothingBehind) {
  for (int step = 0; step < 300; ++step) turn();
  for (int pass = 0; pass < 2; ++pass) {  // the second is for Requests that came after the first
    for (std::size_t side : {0, 1}) {
      take_events(side);
      for (cm::Id& id : ids_[side]) id.destroy();
      verbs_[side].reset();
    }
    net_->run_for(30s);
  }
  for (Host* host : hosts_) EXPECT_EQ(host->provider->endpoint_count(), 0U);
  EXPECT_GT(established_, 0U);
}

INSTANTIATE_TEST_SUITE_P(CmClosing, AnyOrder, ::testing::Range(std::uint64_t{1}, std::uint64_t{200}),
                         [](const auto& seed) { return fmt::format("seed_{}", seed.param); });

}  // namespace
}  // namespace parley::closing_test

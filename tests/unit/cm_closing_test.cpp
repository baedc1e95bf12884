// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Ends under pressure: peers that do not read, peers that do not stop asking, deadlines beyond the clock's end, and ids
// destroyed while octets are still owed. RFC 5044 §7.2, RFC 5040 §5.4 and §6.2.1.
#include "mpa/framer.hpp"
#include "parley/wire/mpa.h"
#include "tests/unit/cm_test_pair.hpp"
#include "wire/mpa.hpp"
#include "wire/rdmap.hpp"

namespace parley {
namespace {

using namespace testing_net;

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
  auto id = p.a.cm.connect(to, {.qp = p.va.qp(), .tcp_timeout = Duration::max()});
  ASSERT_TRUE(id);
  p.ca = *id;
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Established>() != nullptr; }));
  p.exchange();
  ASSERT_TRUE(p.ca.disconnect());
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Disconnected>() != nullptr; }));
  EXPECT_TRUE(p.a.last<cm::Disconnected>()->graceful) << p.a.last<cm::Disconnected>()->why.to_string();
}

// disconnect() ends our half whatever the peer goes on asking for.
TEST(CmClosing, APeerThatKeepsReadingCannotHoldOffTheEnd) {
  Pair p({.window = 8192});
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {.rtr = mpa::Rtr::write, .ird = 8, .ord = 8});
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  std::size_t asked = 0;
  const auto ask = [&] {  // b keeps Reads of a's memory under way
    const Sge sink = p.vb.at(0, 4096);
    while (p.cb.qp()->post_send({.opcode = SendWr::Opcode::rdma_read,
                                 .sges = {&sink, 1},
                                 .remote_stag = p.va.mr.stag,
                                 .remote_to = p.va.mr.to}))
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

/// A provider driven by hand, with one accepted connection whose peer is the test.
struct ByHand {
  ByHand() : provider(cm::make_iwarp_provider()), cm(*provider), verbs(provider->device(), 1 << 20) {
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

}  // namespace
}  // namespace parley

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Two hosts in a test network, one connection between them, and what tests ask of it.
#pragma once
#include <gtest/gtest.h>

#include "tests/unit/cm/test_net.hpp"

namespace parley::testing_net {

inline Bytes text(std::string_view s) { return {s.begin(), s.end()}; }

/// The last event of that kind is there and its words say something.
inline void expect_text(const cm::Failure& why, const cm::Step& step, Errc code, std::string_view peer) {
  const std::string line = why.to_string(peer);
  EXPECT_EQ(why.step.name, step.name) << line;
  EXPECT_EQ(why.code, make_error_code(code)) << line;
  EXPECT_FALSE(why.received.empty()) << line;
  EXPECT_FALSE(why.advice.empty()) << line;
  EXPECT_NE(line.find(peer), std::string::npos) << line;
}

struct Pair {
  explicit Pair(NetOptions options = {}, const cm::IwarpProviderOptions& provider = {})
      : net(options),
        a(net.add_host(1, provider)),
        b(net.add_host(2, provider)),
        va(a.cm.device()),
        vb(b.cm.device()) {}
  ~Pair() {
    for (cm::Id id : {ca, cb, listener}) id.destroy();
    for (Host* host : {&a, &b})
      for (auto* e : host->all<cm::ConnectRequest>()) e->id.destroy();
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  Address listen(const cm::ListenOptions& options = {}) {
    listener = *b.cm.listen(Address::any(Address::Family::v4, 7471), options);
    EXPECT_TRUE(net.run_until([&] { return b.last<cm::Listening>() != nullptr; }));
    return b.last<cm::Listening>()->local;
  }
  /// b accepts whatever comes, with a queue pair on vb and `receives` receives posted before the peer may speak.
  void accept_all(int receives = 4, ConstBytes private_data = {}) {
    const Bytes data(private_data.begin(), private_data.end());
    b.on_request = [this, receives, data](cm::ConnectRequest& request) {
      cb = request.id;
      auto qp = cb.create_qp(vb.qp());
      if (!qp) return;  // the peer has gone meanwhile
      for (int i = 0; i < receives; ++i) ASSERT_TRUE(vb.recv(**qp, 4096 * static_cast<std::size_t>(i), 4096));
      ASSERT_TRUE(cb.accept({.private_data = data}));
    };
  }
  void connect(const Address& to, const mpa::Options& mpa, ConstBytes private_data = {}, std::uint16_t ird = 32,
               std::uint16_t ord = 32) {
    auto id = a.cm.connect(to, {.transport = mpa, .ird = ird, .ord = ord, .private_data = private_data, .qp = va.qp()});
    ASSERT_TRUE(id) << id.error().message();
    ca = *id;
  }
  bool established() { return a.last<cm::Established>() != nullptr && b.last<cm::Established>() != nullptr; }

  /// Sends one message each way and compares the octets.
  void exchange(std::size_t length = 3000) {
    ASSERT_NE(ca.qp(), nullptr);
    ASSERT_NE(cb.qp(), nullptr);
    for (std::size_t i = 0; i < length; ++i) {
      va.memory[32768 + i] = static_cast<std::uint8_t>(i * 7 + 1);
      vb.memory[32768 + i] = static_cast<std::uint8_t>(i * 5 + 2);
    }
    va.done.clear(), vb.done.clear();
    ASSERT_TRUE(va.recv(*ca.qp(), 0, length));
    ASSERT_TRUE(vb.recv(*cb.qp(), 16384, length));
    ASSERT_TRUE(va.send(*ca.qp(), 32768, length));
    ASSERT_TRUE(net.run_until([&] { return vb.saw(WcOpcode::recv); }));
    ASSERT_TRUE(vb.send(*cb.qp(), 32768, length));
    ASSERT_TRUE(net.run_until([&] { return va.saw(WcOpcode::recv); }));
    EXPECT_TRUE(std::equal(va.memory.begin(), va.memory.begin() + static_cast<std::ptrdiff_t>(length),
                           vb.memory.begin() + 32768));
    // Without an RTR that takes one, the first of b's early receives got a's message.
    bool found = false;
    for (const std::size_t at : {0, 4096, 8192, 12288, 16384})
      found = found ||
              std::equal(va.memory.begin() + 32768, va.memory.begin() + 32768 + static_cast<std::ptrdiff_t>(length),
                         vb.memory.begin() + static_cast<std::ptrdiff_t>(at));
    EXPECT_TRUE(found) << "the octets of a's message are in one of b's receives";
  }

  Net net;
  Host& a;
  Host& b;
  Verbs va, vb;
  cm::Id listener, ca, cb;
};

}  // namespace parley::testing_net

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Many connections: set up, idle, closed; and what they cost.
#include "tests/unit/cm/test_pair.hpp"

namespace parley::scale_test {
namespace {

using namespace testing_net;
using testing_net::Host;

TEST(CmScale, TenThousandConnections) {
  constexpr std::size_t count = 10000;
  Net net;
  Host& a = net.add_host(1);
  Host& b = net.add_host(2);
  ASSERT_TRUE(b.cm.listen(Address::any(Address::Family::v4, 7471), {.pending_max = count}));
  net.settle();
  const Address to = b.last<cm::Listening>()->local;
  b.on_request = [](cm::ConnectRequest& request) { ASSERT_TRUE(request.id.accept()); };
  std::vector<cm::Id> ids;
  for (std::size_t i = 0; i < count; ++i)
    ids.push_back(*a.cm.connect(to, {.transport = mpa::Options{.rtr = mpa::Rtr::write}}));
  net.run_for(1s);
  EXPECT_EQ(a.all<cm::Established>().size(), count);
  EXPECT_EQ(b.all<cm::Established>().size(), count);
  EXPECT_EQ(a.provider->next_deadline(), never) << "idle connections wait for nothing";
  EXPECT_EQ(b.provider->next_deadline(), never);
  for (cm::Id id : ids) ASSERT_TRUE(id.disconnect());
  net.run_for(1s);
  for (Host* host : {&a, &b}) {
    const auto ends = host->all<cm::Disconnected>();
    EXPECT_EQ(ends.size(), count);
    for (auto* end : ends) {
      EXPECT_TRUE(end->graceful);
      end->id.destroy();
    }
  }
  net.run_for(1s);
  EXPECT_EQ(a.provider->endpoint_count(), 0U);
  EXPECT_EQ(b.provider->endpoint_count(), 1U);
}

// Every connection that began has exactly one end, whatever the network does to it, and both sides never disagree on a
// graceful one.
TEST(CmScale, RandomLivesEndOnce) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Net net({.segment = 40, .seed = seed});
    Host& a = net.add_host(1, {.linger = 2s});
    Host& b = net.add_host(2, {.linger = 2s});
    ASSERT_TRUE(b.cm.listen(Address::any(Address::Family::v4, 7471)));
    net.settle();
    const Address to = b.last<cm::Listening>()->local;
    std::uint64_t state = seed;
    const auto roll = [&state](std::uint64_t n) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      return (state >> 33) % n;
    };
    std::vector<cm::Id> accepted;
    b.on_request = [&](cm::ConnectRequest& request) {
      if (roll(4) == 0) {
        (void)request.id.reject();
        request.id.destroy();
      } else {
        if (request.id.accept()) accepted.push_back(request.id);
      }
    };
    const mpa::Timeouts timeouts{.request = 1s, .reply = 1s, .rtr = 1s, .first_fpdu = 1s};
    std::vector<cm::Id> ids;
    for (int i = 0; i < 40; ++i) {
      const auto rtr = static_cast<mpa::Rtr>(roll(5));
      const auto revision = static_cast<std::uint8_t>(rtr == mpa::Rtr::frame ? 1 : 1 + roll(2));
      ids.push_back(
          *a.cm.connect(to, {.transport = mpa::Options{.revision = revision, .rtr = rtr, .timeouts = timeouts},
                             .transport_timeout = 1s}));
      net.run_for(std::chrono::microseconds(roll(30)));
      if (roll(8) == 0) net.partitioned = !net.partitioned;
      if (roll(3) == 0) (void)ids[roll(ids.size())].disconnect();
    }
    net.partitioned = true;  // whatever is still open is lost without a word
    net.run_for(100s);
    net.partitioned = false;
    for (cm::Id id : ids) (void)id.disconnect();
    for (cm::Id id : accepted) (void)id.disconnect();
    net.run_for(100s);
    std::map<std::uint64_t, int> ends;
    for (const cm::Event& e : a.events) {
      if (const auto* x = std::get_if<cm::Disconnected>(&e)) ++ends[x->id.number()];
      if (const auto* x = std::get_if<cm::ConnectFailed>(&e)) ++ends[x->id.number()];
      if (const auto* x = std::get_if<cm::Rejected>(&e)) ++ends[x->id.number()];
    }
    for (const cm::Id id : ids) EXPECT_EQ(ends[id.number()], 1) << "id " << id.number();
    for (cm::Id id : ids) id.destroy();
    net.run_for(100s);
    EXPECT_EQ(a.provider->endpoint_count(), 0U);
    EXPECT_EQ(a.provider->next_deadline(), never);
  }
}

}  // namespace
}  // namespace parley::scale_test

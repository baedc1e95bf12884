// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A switch learns where addresses are, floods what it does not know, and remembers a bounded number.
#include <functional>

#include "link_kit.hpp"

namespace parley::sim {
namespace {

using namespace testing_links;

constexpr std::uint64_t broadcast = 0xFFFFFFFFFFFF;

/// Sinks at the ports of one switch, or of a row of switches with the same number of sinks each.
class Star {
 public:
  Star(std::size_t switches, std::size_t sinks_each, const std::function<LinkOptions(std::size_t)>& options = {}) {
    for (std::size_t s = 0; s < switches; ++s) {
      switches_.push_back(std::make_unique<Switch>(engine, static_cast<NodeId>(s), "s" + std::to_string(s)));
      for (std::size_t i = 0; i < sinks_each; ++i) {
        const std::size_t n = sinks.size();
        sinks.push_back(std::make_unique<Sink>(engine, static_cast<NodeId>(100 + n), "h" + std::to_string(n)));
        LinkWay& up = way(options ? options(n) : LinkOptions{}, true);
        LinkWay& down = way(options ? options(n) : LinkOptions{}, false);
        up.connect(*switches_[s], switches_[s]->attach(down), down);
        down.connect(*sinks[n], 0, up);
        uplinks_.push_back(&up);
      }
      if (s == 0) continue;
      LinkWay& there = way({}, false);
      LinkWay& back = way({}, false);
      there.connect(*switches_[s], switches_[s]->attach(back), back);
      back.connect(*switches_[s - 1], switches_[s - 1]->attach(there), there);
    }
  }
  void send(std::size_t from, std::uint64_t destination, std::uint64_t source, std::size_t size = 100,
            bool to_its_end = true) {
    FramePtr frame = engine.frames.take(size);
    for (int i = 0; i < 6 && size >= 14; ++i) {
      frame->data()[i] = static_cast<std::uint8_t>(destination >> (40 - 8 * i));
      frame->data()[6 + i] = static_cast<std::uint8_t>(source >> (40 - 8 * i));
    }
    uplinks_[from]->transmit(std::move(frame));
    if (to_its_end) run();
  }
  void run() {
    while (engine.step(never)) {
    }
  }
  /// How many frames each sink has got since the last call.
  std::vector<std::size_t> got() {
    std::vector<std::size_t> counts;
    for (const auto& sink : sinks) {
      counts.push_back(sink->arrivals.size());
      sink->arrivals.clear();
    }
    return counts;
  }
  using Counts = std::vector<std::size_t>;

  Engine engine;
  std::vector<std::unique_ptr<Sink>> sinks;

 private:
  LinkWay& way(const LinkOptions& options, bool from_host) {
    ways_.push_back(std::make_unique<LinkWay>(engine, scheduled_, static_cast<LinkId>(ways_.size() / 2),
                                              static_cast<std::uint8_t>(ways_.size() % 2), options, from_host, Rng(1)));
    return *ways_.back();
  }
  Scheduled scheduled_;
  std::vector<std::unique_ptr<Switch>> switches_;
  std::vector<std::unique_ptr<LinkWay>> ways_;
  std::vector<LinkWay*> uplinks_;
};

TEST(SimSwitch, FloodsAnUnknownAddressAndForwardsOneItHasHeard) {
  Star star(1, 3);
  star.send(0, 0x02B, 0x02A);
  EXPECT_EQ(star.got(), (Star::Counts{0, 1, 1}));
  star.send(1, 0x02A, 0x02B);
  EXPECT_EQ(star.got(), (Star::Counts{1, 0, 0}));
  star.send(0, 0x02B, 0x02A);
  EXPECT_EQ(star.got(), (Star::Counts{0, 1, 0}));
}

TEST(SimSwitch, FloodsBroadcastAndGroupsAlways) {
  Star star(1, 3);
  star.send(0, broadcast, 0x02A);
  star.send(1, 0x0100'5E00'0001, 0x02B);
  EXPECT_EQ(star.got(), (Star::Counts{1, 1, 2}));
}

TEST(SimSwitch, FloodedCopiesAreTheSameFrame) {
  Star star(1, 4);
  star.send(0, broadcast, 0x02A);
  for (std::size_t i = 2; i < 4; ++i) {
    EXPECT_EQ(star.sinks[i]->arrivals.at(0).id, star.sinks[1]->arrivals.at(0).id);
    EXPECT_EQ(star.sinks[i]->arrivals.at(0).octets, star.sinks[1]->arrivals.at(0).octets);
  }
  EXPECT_EQ(star.engine.frames.out(), 0u);
}

// Ports whose copies arrive at one time share a frame and an entry of the queue. Contents and times of arrival
// are the same as with separate copies.
TEST(SimSwitch, FloodedCopiesAreOneFrameInMemoryAndArriveAsIfEachWereItsOwn) {
  const auto options = [](std::size_t sink) {
    LinkOptions out;
    if (sink == 2) out.delay = 5us;                                   // later than its neighbours
    if (sink == 4) out.queue_octets = 100, out.rate_bps = 1'000'000;  // its second copy is dropped
    return out;
  };
  Star star(1, 7, options);
  star.send(0, broadcast, 0x02A, 100, false);
  star.send(0, broadcast, 0x02A, 100, false);
  EXPECT_EQ(star.engine.frames.out(), 2u);
  ASSERT_TRUE(star.engine.step(never) && star.engine.step(never));  // both are at the switch
  EXPECT_EQ(star.engine.frames.out(), 2u * 6 - 1) << "copies, of which one was dropped";
  EXPECT_EQ(star.engine.pending(), 2u * 6 - 1);
  EXPECT_EQ(star.engine.counters.dropped, 1u);
  star.run();
  EXPECT_EQ(star.engine.frames.out(), 0u);
  const auto usual = star.sinks[1]->times();
  for (const std::size_t sink : {3u, 5u, 6u}) EXPECT_EQ(star.sinks[sink]->times(), usual) << sink;
  EXPECT_EQ(star.sinks[2]->times(), (std::vector<std::int64_t>{usual[0] + 4000, usual[1] + 4000}));
  EXPECT_EQ(star.got(), (Star::Counts{0, 2, 2, 2, 1, 2, 2}));
}

TEST(SimSwitch, KeepsKnownHostsBeyondItsBound) {
  MacTable table(2);
  for (std::uint64_t mac = 1; mac <= 5; ++mac) table.know(mac, static_cast<std::uint16_t>(mac));
  for (std::uint64_t mac = 1; mac <= 5; ++mac) EXPECT_EQ(table.find(mac), mac);
}

TEST(SimSwitch, NeverSendsAFrameBackWhereItCameFrom) {
  Star star(1, 2);
  star.send(0, broadcast, 0x02A);
  star.got();
  star.send(0, 0x02A, 0x02A);
  EXPECT_EQ(star.got(), (Star::Counts{0, 0}));
  Star alone(1, 1);
  alone.send(0, broadcast, 0x02A);
  EXPECT_EQ(alone.got(), (Star::Counts{0}));
}

TEST(SimSwitch, FollowsAnAddressThatMoves) {
  Star star(1, 3);
  star.send(0, broadcast, 0x02A);
  star.send(2, broadcast, 0x02A);
  star.got();
  star.send(1, 0x02A, 0x02B);
  EXPECT_EQ(star.got(), (Star::Counts{0, 0, 1}));
}

TEST(SimSwitch, SeveralHopsCarryAndLearn) {
  Star star(4, 2);
  star.send(0, 0x02B, 0x02A);
  EXPECT_EQ(star.got(), (Star::Counts{0, 1, 1, 1, 1, 1, 1, 1}));
  star.send(7, 0x02A, 0x02B);
  EXPECT_EQ(star.got(), (Star::Counts{1, 0, 0, 0, 0, 0, 0, 0}));
  star.send(0, 0x02B, 0x02A);
  EXPECT_EQ(star.got(), (Star::Counts{0, 0, 0, 0, 0, 0, 0, 1}));
}

TEST(SimSwitch, AFrameTooLongForTheWayOutIsDroppedAndNoted) {
  Star star(1, 2, [](std::size_t n) { return LinkOptions{.mtu = static_cast<std::uint16_t>(n == 0 ? 9000 : 1500)}; });
  Seen seen;
  star.engine.tap = &seen;
  star.send(0, broadcast, 0x02A, 5000);
  EXPECT_EQ(star.got(), (Star::Counts{0, 0}));
  ASSERT_EQ(seen.frames.size(), 3u);
  EXPECT_EQ(seen.frames[2].drop, DropReason::too_big);
  EXPECT_EQ(seen.frames[2].note, "4986 octets of packet are more than the MTU of 1500");
}

TEST(SimSwitch, DiscardsWhatHasNoEthernetHeaderOfOneSender) {
  Star star(1, 2);
  Seen seen;
  star.engine.tap = &seen;
  star.send(0, 0, 0, 13);
  star.send(0, 0x02B, 0x0100'0000'0001);
  EXPECT_EQ(star.got(), (Star::Counts{0, 0}));
  ASSERT_EQ(seen.frames.size(), 4u);
  EXPECT_EQ(seen.frames[1].drop, DropReason::discarded);
  EXPECT_EQ(seen.frames[3].note, "no Ethernet header of one sender");
}

TEST(SimSwitch, ForgetsTheAddressHeardLongestAgo) {
  MacTable table(3);
  table.learn(1, 1);
  table.learn(2, 2);
  table.learn(3, 3);
  table.learn(1, 1);  // heard again
  table.learn(4, 4);
  EXPECT_EQ(table.size(), 3u);
  EXPECT_EQ(table.find(1), 1);
  EXPECT_EQ(table.find(2), MacTable::unknown);
  EXPECT_EQ(table.find(3), 3);
  EXPECT_EQ(table.find(4), 4);
}

TEST(SimSwitch, TheTableAgreesWithAListOverManyAddresses) {
  for (const std::uint32_t limit : {1u, 2u, 7u, 64u, 500u}) {
    MacTable table(limit);
    std::vector<std::pair<std::uint64_t, std::uint16_t>> model;  // heard longest ago first
    Rng rng(limit);
    for (int i = 0; i < 5000; ++i) {
      const std::uint64_t mac = rng.below(limit * 2 + 1) << rng.below(30);
      const auto port = static_cast<std::uint16_t>(rng.below(100));
      table.learn(mac, port);
      std::erase_if(model, [&](const auto& entry) { return entry.first == mac; });
      model.emplace_back(mac, port);
      if (model.size() > limit) model.erase(model.begin());
      const std::uint64_t asked = rng.below(limit * 2 + 1);
      std::uint16_t expected = MacTable::unknown;
      for (const auto& [known, where] : model)
        if (known == asked) expected = where;
      ASSERT_EQ(table.find(asked), expected) << "limit " << limit << " step " << i;
      ASSERT_EQ(table.size(), model.size());
    }
  }
}

}  // namespace
}  // namespace parley::sim

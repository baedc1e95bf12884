// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Packets in the middle of messages go a short way through a queue pair. Those that are marked by a congested switch go the long one,
// and where no notification answers the mark, it changes nothing else: so the same work with and without marks must come to the same,
// whatever is lost, late, changed or refused on the way.
#include "base/bytes_io.hpp"
#include "roce_link.hpp"

namespace parley::nic::roce::test::roce_middle_test {
namespace {

/// All that a run shows.
struct Story {
  std::vector<std::string> packets, completions, counters;
  Bytes memory_a, memory_b;
  bool operator==(const Story&) const = default;
};

void tell(Story& story, const char* who, const std::vector<WorkCompletion>& done) {
  for (const WorkCompletion& wc : done)
    story.completions.push_back(std::string(who) + " " + std::to_string(wc.wr_id) + " " +
                                std::string(to_string(wc.status)) + " " + std::to_string(wc.byte_len));
}

void tell(Story& story, const Side& side) {
  const Counters& counters = side.device->counters();
#define PARLEY_X(name, text) story.counters.push_back(#name " " + std::to_string(counters.name));
  PARLEY_ROCE_COUNTERS(PARLEY_X)
#undef PARLEY_X
  const auto& own = side.qp->counters();
  story.counters.push_back(std::to_string(own.packets_sent) + " " + std::to_string(own.packets_received) + " " +
                           std::to_string(own.duplicates));
  story.counters.push_back(std::string(to_string(side.qp->state())));
}

/// What came of it at both sides.
void tell_end(Story& story, World& w, const Buffer& a, const Buffer& b) {
  tell(story, "a sent", w.a.sends());
  tell(story, "a got", w.a.recvs());
  tell(story, "b sent", w.b.sends());
  tell(story, "b got", w.b.recvs());
  tell(story, w.a);
  tell(story, w.b);
  story.memory_a = a.memory;
  story.memory_b = b.memory;
}

DeviceOptions without_notifications(std::uint8_t last) {
  DeviceOptions options = Side::options(last);
  options.cnp_interval = {};
  options.window = 24;
  options.ack_every = 5;
  return options;
}

constexpr std::size_t octets = 8192, posts = 24;

/// What happens to a packet: most pass; some are lost, late or come twice; of hostile runs some are changed.
struct Trouble {
  Rng rng;
  bool hostile = false;
  bool operator()(Frame& frame) {
    const std::uint64_t drawn = rng.below(40);
    if (drawn == 0) return false;
    if (drawn == 1) frame.at += Duration(static_cast<std::int64_t>(rng.below(60'000)));
    if (drawn == 2 && hostile) {
      const std::size_t among = rng.below(2) != 0 ? 12 : frame.octets.size();  // headers as often as all
      frame.octets[rng.below(among)] ^= static_cast<std::uint8_t>(1U << rng.below(8));
    }
    if (drawn == 3 && hostile) frame.octets.resize(frame.octets.size() - rng.below(9));
    if (hostile && (drawn == 4 || (drawn < 12 && frame.operation() == Operation::write_first))) spoil(frame);
    return true;
  }
  /// What a peer would have to get wrong: the length that a Write names, the kind of packet, its size.
  void spoil(Frame& frame) {
    constexpr std::uint8_t rc[] = {0,  1,  2,  6, 7, 8,
                                   13, 14, 15, 17};  // SEND, WRITE and READ response: First, Middle, Last; Acknowledge
    const std::size_t middle = 12 + 256 + 4;
    const std::uint64_t drawn = rng.below(4);
    if (frame.operation() == Operation::write_first) {
      Writer(MutBytes(frame.octets).subspan(24, 4)).be32(static_cast<std::uint32_t>(256 * (1 + rng.below(12))));
    } else if (frame.opcode() % 6 == 2 && drawn != 0) {  // a Last of a Send or a Write
      --frame.octets[0];
      frame.octets.resize(middle);
    } else if (frame.opcode() == 15 && drawn != 0) {
      frame.octets[0] = 14;
      frame.octets.resize(middle);
    } else if (drawn == 1) {
      frame.octets.resize(middle + 4 * rng.below(3));
    } else {
      frame.octets[0] = rc[rng.below(10)];
      if (rng.below(2) != 0) frame.octets.resize(middle);
    }
  }
};

void post(Side& side, const Buffer& own, const Buffer& peer, Rng& rng, bool hostile) {
  for (std::size_t id = 0; id < posts; ++id) {
    const std::size_t room = hostile && rng.below(20) == 0 ? 700 : 4096;
    const std::size_t at = rng.below(octets - 4096);
    EXPECT_TRUE(side.recv(id, {own.sge(at, room / 3), own.sge(at + room / 3, room - room / 3)}));
  }
  for (std::size_t id = 0; id < posts; ++id) {
    const std::size_t length = rng.below(4097), at = rng.below(octets - 4096), first = rng.below(length + 1);
    const Sge sges[] = {own.sge(at, first), own.sge(at + first, length - first)};
    const std::uint64_t kind = rng.below(3);
    const std::size_t to = hostile && rng.below(20) == 0 ? octets - 500 : rng.below(octets - 4096);
    const bool sends = kind == 0;
    (void)side.qp->post_send({.wr_id = id,
                              .opcode = sends       ? SendWr::Opcode::send
                                        : kind == 1 ? SendWr::Opcode::rdma_write
                                                    : SendWr::Opcode::rdma_read,
                              .sges = sges,
                              .remote_addr = sends ? 0 : peer.region.addr + to,
                              .rkey = sends ? 0 : peer.region.rkey});
  }
}

Story run(std::uint64_t seed, bool marked, bool hostile, std::size_t most = 1) {
  Story story;
  Rng rng(seed);
  World w(without_notifications(1), without_notifications(2));
  w.connect({.timeout = 6, .retry = 7, .rnr_retry = 7});
  w.most = most;
  Buffer a(*w.a.device, w.a.pd, octets), b(*w.b.device, w.b.pd, octets);
  Buffer later(*w.b.device, w.b.pd, octets);
  a.fill(seed);
  b.fill(seed + 1);
  Trouble trouble{.rng = Rng(seed + 2), .hostile = hostile};
  const std::uint64_t goes_at = hostile ? 20 + rng.below(200) : ~0ULL;  // a region is taken away
  w.filter = [&](std::size_t number, Frame& frame) {
    story.packets.push_back(std::to_string(frame.at.time_since_epoch().count()) + (frame.to_b ? " > " : " < ") +
                            std::string(frame.octets.begin(), frame.octets.end()));
    if (number == goes_at && seed % 2 == 0) (void)w.b.device->dereg_mr(later.region.lkey);
    if (number == goes_at && seed % 2 == 1)
      (void)w.b.qp->modify({.state = QpState::rts, .access = Access::remote_read});
    if (marked) frame.to.traffic_class |= 3;
    return trouble(frame);
  };
  post(w.a, a, rng.below(2) != 0 ? b : later, rng, hostile);
  post(w.b, b, a, rng, hostile);
  w.run(100s);
  tell_end(story, w, a, b);
  return story;
}

void expect_same(const Story& plain, const Story& marked, std::uint64_t seed) {
  EXPECT_TRUE(plain.packets == marked.packets) << "seed " << seed << ": other packets";
  EXPECT_EQ(plain.completions, marked.completions) << "seed " << seed;
  EXPECT_EQ(plain.counters, marked.counters) << "seed " << seed;
  EXPECT_TRUE(plain.memory_a == marked.memory_a && plain.memory_b == marked.memory_b) << "seed " << seed;
}

TEST(NicRoceMiddle, BothWaysComeToTheSameUnderLoss) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Story plain = run(seed, false, false);
    expect_same(plain, run(seed, true, false), seed);
    ASSERT_GT(plain.packets.size(), 200U);
    for (const std::string& said : plain.completions) EXPECT_NE(said.find(" success "), std::string::npos) << said;
  }
}

TEST(NicRoceMiddle, ManyAtATimeAreThoseThatComeOneByOne) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Story plain = run(seed, false, false);
    for (const std::size_t most : {std::size_t{2}, std::size_t{64}})
      expect_same(plain, run(seed, false, false, most), seed);
  }
}

/// What a device makes of packets of A's, of which some are lost, changed or out of order, when it gets them in rows or one by one.
Story take(std::uint64_t seed, bool in_rows, std::size_t& longest) {
  Story story;
  Rng rng(seed);
  World w(without_notifications(1), without_notifications(2));
  w.connect({.timeout = 6, .retry = 7, .rnr_retry = 7});
  Buffer a(*w.a.device, w.a.pd, octets), b(*w.b.device, w.b.pd, octets);
  a.fill(seed);
  b.fill(seed + 1);
  post(w.a, a, b, rng, false);
  post(w.b, b, a, rng, false);
  const bool hostile = seed % 2 == 0;
  Trouble trouble{.rng = Rng(seed + 2), .hostile = hostile};
  const auto carry = [&](Side& from, Side& to, bool to_b) {
    std::vector<Bytes> rows;  // of packets that are equally long
    std::vector<std::size_t> sizes;
    std::array<std::uint8_t, packet_max> buffer;
    PacketTo path;
    while (from.device->poll_transmit(w.now, path, buffer)) {
      Frame frame{.to_b = to_b, .to = path, .octets = Bytes(buffer.begin(), buffer.begin() + std::ssize(buffer))};
      frame.octets.resize(path.size + PARLEY_IB_ICRC_LEN);
      std::fill(frame.octets.end() - PARLEY_IB_ICRC_LEN, frame.octets.end(), std::uint8_t{0});
      if (!trouble(frame) || frame.octets.empty()) continue;
      if (sizes.empty() || sizes.back() != frame.octets.size()) {
        rows.emplace_back();
        sizes.push_back(frame.octets.size());
      }
      rows.back().insert(rows.back().end(), frame.octets.begin(), frame.octets.end());
    }
    const PacketFrom came{.source = from.device->gid(0), .destination = to.device->gid(0)};
    for (std::size_t i = 0; i < rows.size(); ++i) {
      story.packets.emplace_back(rows[i].begin(), rows[i].end());
      for (ConstBytes left = rows[i]; !left.empty();) {
        std::size_t taken = 1;
        const PacketPlacement place = in_rows ? to.device->place_of(came, sizes[i], left) : PacketPlacement{};
        if (place.count != 0) {
          taken = 1 + rng.below(place.count);  // as if the ICRC of the next were wrong
          const std::size_t share = place.memory.size() / place.count;
          for (std::size_t n = 0; n < taken; ++n)
            std::copy_n(left.begin() + static_cast<std::ptrdiff_t>(n * sizes[i] + PARLEY_IB_BTH_LEN), share,
                        place.memory.begin() + static_cast<std::ptrdiff_t>(n * share));
          to.device->handle_placed(w.now, came, sizes[i], left.first(taken * sizes[i]));
        } else {
          to.device->handle_packet(w.now, came, left.first(sizes[i]));
        }
        longest = std::max(longest, taken);
        left = left.subspan(taken * sizes[i]);
      }
    }
  };
  for (int turn = 0; turn < 60; ++turn) {
    w.now += 20us;
    carry(w.a, w.b, true);
    carry(w.b, w.a, false);
    for (Side* side : {&w.a, &w.b})
      if (side->device->next_deadline() <= w.now) side->device->handle_deadline(w.now);
  }
  tell_end(story, w, a, b);
  return story;
}

TEST(NicRoceMiddle, WhatComesInRowsIsTakenAsOneByOne) {
  std::size_t longest = 0, one_by_one = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed)
    expect_same(take(seed, false, one_by_one), take(seed, true, longest), seed);
  EXPECT_EQ(one_by_one, 1U);
  EXPECT_GE(longest, 5U) << "nothing came in a row, so nothing was compared";
}

TEST(NicRoceMiddle, BothWaysComeToTheSameWhateverIsWrong) {
  std::size_t failed = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const Story plain = run(seed, false, true);
    expect_same(plain, run(seed, true, true), seed);
    for (const std::string& said : plain.completions) failed += said.find("success") == std::string::npos;
  }
  EXPECT_GT(failed, 400U) << "nothing went wrong, so nothing was compared";
}

}  // namespace
}  // namespace parley::nic::roce::test::roce_middle_test

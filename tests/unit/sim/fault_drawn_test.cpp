// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Rules of every action and match on connections cut into segments of many sizes, sent in and out of order and again: what
// became of the frames, by action and message (tests/states/sim_fault_frames.txt).
#include <gtest/gtest.h>

#include "fault_kit.hpp"
#include "reports_kit.hpp"
#include "sim/fault/fault_text.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::sim::test {
namespace {

using namespace std::chrono_literals;

/// What becomes of a frame: how often, time added, copies, octets now, octets that differ and the sum of their places.
void add_decision(Tally& tally, const FaultDecision& d, const Frame& frame, const Bytes& before) {
  std::string out;
  if (d.drop != DropReason::none) out += fmt::format(" {}", to_string(d.drop));
  if (d.extra.count() != 0) out += " later";
  if (d.overtakable) out += " overtakable";
  if (d.copies != 0) out += " copied";
  if (d.reset) out += " reset";
  if (d.fin) out += " fin";
  if (d.changes_stream) out += " changes";
  for (const FaultRule* rule : d.hosts) out += fmt::format(" {} {}", to_string(rule->action), rule->host);
  const Bytes after = octets_of(frame);
  std::int64_t differing = 0, places = 0;
  for (std::size_t i = 0; i < std::min(after.size(), before.size()); ++i)
    if (after[i] != before[i]) ++differing, places += static_cast<std::int64_t>(i) * (after[i] ^ before[i]);
  if (after.size() != before.size()) out += " shorter";
  if (differing > 0) out += " altered";
  if (!d.note.empty()) tally.add("note: " + without_numbers(d.note.substr(0, d.note.find(" ("))));
  tally.add(out.empty() ? "nothing" : out.substr(1), {d.extra.count(), static_cast<std::int64_t>(d.copies),
                                                      static_cast<std::int64_t>(after.size()), differing, places});
}

/// A connection from one end: startup frames, FPDUs, and what a peer's segments repeat.
class DrawnStream {
 public:
  DrawnStream(Rng& rng, bool initiator) : rng_(rng) {
    sender_.ipv6 = rng.below(2) != 0;
    sender_.timestamps = rng.below(2) != 0;
    sender_.active = initiator;
    sender_.port = static_cast<std::uint16_t>(40000 + rng.below(3));
    sender_.isn = rng.below(3) == 0 ? 0xFFFF'FF80 : static_cast<std::uint32_t>(rng.next());
    const bool markers = rng.below(2) != 0;
    octets_ = initiator ? request(static_cast<std::uint8_t>(PARLEY_MPA_FLAG_C | (markers ? PARLEY_MPA_FLAG_M : 0)),
                                  Bytes(rng.below(40), 'p'))
                        : reply(PARLEY_MPA_FLAG_C, Bytes(rng.below(40), 'q'));
    if (initiator && rng.below(3) == 0) octets_ = octets_ + startup(wire::MpaKey::rtr, 0, 1);
    std::vector<Bytes> ulpdus;
    const std::uint64_t count = rng.between(1, 9);
    for (std::uint64_t i = 0; i < count; ++i) {
      const Bytes kinds[] = {empty_send(), empty_write(), empty_read(), empty_read(9), send_segment(2, rng.below(700)),
                             terminate()};
      ulpdus.push_back(kinds[rng.below(6)]);
    }
    octets_ = octets_ + fpdus(ulpdus, markers && !initiator);
  }

  std::vector<Bytes> frames() {
    std::vector<Bytes> out{sender_.syn()};
    if (rng_.below(4) == 0) out.push_back(out[0]);
    std::size_t at = 0;
    constexpr std::uint64_t pieces[] = {1400, 90, 7};
    const std::uint64_t piece_max = pieces[rng_.below(3)];
    while (at < octets_.size()) {
      const std::size_t size = std::min<std::size_t>(rng_.between(1, piece_max), octets_.size() - at);
      out.push_back(
          sender_.at(at, ConstBytes(octets_).subspan(at, size), at + size == octets_.size() ? wire::tcp_flag::psh : 0));
      if (rng_.below(6) == 0) out.push_back(out[rng_.below(out.size())]);
      if (rng_.below(8) == 0) out.push_back(sender_.at(at + size, {}));
      if (rng_.below(9) == 0 && out.size() > 2) std::swap(out[out.size() - 1], out[out.size() - 2]);
      at += size;
    }
    out.push_back(sender_.at(octets_.size(), {}, wire::tcp_flag::fin));
    if (rng_.below(3) == 0) out.push_back(sender_.make(7, wire::tcp_flag::rst, {}));
    return out;
  }

 private:
  Rng& rng_;
  Sender sender_;
  Bytes octets_;
};

FaultRule drawn_rule(Rng& rng) {
  constexpr MessageKind kinds[] = {MessageKind::any,       MessageKind::tcp_syn,     MessageKind::tcp_ack,
                                   MessageKind::tcp_fin,   MessageKind::tcp_data,    MessageKind::mpa_request,
                                   MessageKind::mpa_reply, MessageKind::mpa_rtr,     MessageKind::fpdu,
                                   MessageKind::fpdu,      MessageKind::terminate,   MessageKind::arp_request,
                                   MessageKind::tcp_rst,   MessageKind::tcp_syn_ack, MessageKind::fpdu};
  for (;;) {
    FaultRule r;
    r.action = static_cast<FaultAction>(rng.below(13));
    r.match.message = kinds[rng.below(std::size(kinds))];
    if (rng.below(3) == 0) r.name = "named";
    if (rng.below(3) == 0) r.match.nth = static_cast<std::uint32_t>(rng.between(1, 3));
    if (rng.below(3) == 0) r.match.times = static_cast<std::uint32_t>(rng.between(1, 3));
    if (rng.below(4) == 0) r.match.connection = static_cast<std::uint32_t>(rng.between(1, 2));
    if (r.match.message == MessageKind::fpdu && rng.below(2) == 0)
      r.match.fpdu = static_cast<std::uint32_t>(rng.between(1, 4));
    if (rng.below(5) == 0) r.chance = {1, static_cast<std::uint32_t>(rng.between(2, 5))};
    if (rng.below(8) == 0) r.mask = rng.next() & rng.next();
    if (rng.below(4) == 0) r.from = at_time(Duration(static_cast<std::int64_t>(rng.below(20))));
    if (rng.below(4) == 0) r.until = at_time(Duration(static_cast<std::int64_t>(rng.between(5, 40))));
    r.field = static_cast<MessageField>(rng.below(9));
    r.host = static_cast<NodeId>(rng.below(3));
    if (r.action == FaultAction::delay)
      r.delay = Duration(static_cast<std::int64_t>(rng.below(3000))),
      r.jitter = Duration(static_cast<std::int64_t>(rng.below(900))), r.reorder = rng.below(2) != 0;
    if (r.action == FaultAction::duplicate || r.action == FaultAction::corrupt)
      r.count = static_cast<std::uint32_t>(rng.between(1, 64));
    if (r.action == FaultAction::truncate) r.octets = static_cast<std::uint32_t>(rng.between(14, 100));
    if (r.action == FaultAction::cut_stream) r.octets = static_cast<std::uint32_t>(rng.below(40));
    if (r.action == FaultAction::set_rate) r.rate_bps = 5;
    if (check_rule(r)) return r;
  }
}

/// A few rules on the frames of up to three connections, one way of a link.
void draw_faults(std::uint64_t seed, Tally& tally) {
  Rng rng(seed);
  FaultInjector injector{Rng(seed + 1000)};
  const std::uint64_t count = rng.between(1, 5);
  for (std::uint64_t i = 0; i < count; ++i) {
    const FaultRule r = drawn_rule(rng);
    tally.add(fmt::format("rule: {}", to_string(r.action)), {static_cast<std::int64_t>(r.to_string().size())});
    EXPECT_TRUE(injector.add(r));
  }
  const bool initiator = rng.below(2) != 0;
  std::vector<Bytes> frames;
  const std::uint64_t streams = rng.between(1, 3);
  for (std::uint64_t i = 0; i < streams; ++i)
    for (const Bytes& frame : DrawnStream(rng, initiator).frames()) {
      frames.push_back(frame);
      if (i != 0 && rng.below(3) == 0) std::swap(frames.back(), frames[rng.below(frames.size())]);
    }
  FramePool pool;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const FramePtr frame = frame_of(pool, frames[i]);
    if (rng.below(25) == 0) frame->altered = true;
    const FaultDecision d = injector.apply(at_time(Duration(static_cast<std::int64_t>(i))), *frame, true);
    add_decision(tally, d, *frame, frames[i]);
    if (!d.reset) continue;
    const auto resets = FaultInjector::make_resets(pool, *frame);
    for (const FramePtr* reset : {&resets.first, &resets.second}) {
      if (!*reset) continue;
      std::int64_t sum = 0;
      for (const std::uint8_t octet : octets_of(**reset)) sum += octet;
      tally.add(reset == &resets.first ? "reset onward" : "reset back",
                {static_cast<std::int64_t>(octets_of(**reset).size()), sum});
    }
  }
}

TEST(SimFaultDrawn, RulesDoWhatTheyDid) {
  Tally tally;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) draw_faults(seed, tally);
  expect_as_reviewed("sim_fault_frames.txt",
                     "# What became of the frames of 1500 drawn connections under drawn rules: how often, ns added, "
                     "copies, octets now,\n"
                     "# octets that differ, and the sum of places and bits.\n" +
                         tally.text());
}

}  // namespace
}  // namespace parley::sim::test

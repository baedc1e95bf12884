// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a frame carries, for every form of a first FPDU and for drawn connections whose frames are lost, doubled, late,
// cut in other places or changed (tests/states/sim_messages_drawn.txt).
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "fault_kit.hpp"
#include "tests/unit/reviewed.hpp"
#include "tests/unit/runs.hpp"

namespace parley::sim::test {
namespace {

Bytes any_segment(unsigned opcode, bool is_tagged, std::size_t length) {
  Bytes out(length);
  if (length > 0) out[0] = static_cast<std::uint8_t>(0x41 | (is_tagged ? PARLEY_DDP_T : 0));
  if (length > 1) out[1] = static_cast<std::uint8_t>(0x40 | opcode);
  return out;
}

// RFC 6581 §9.2: an empty Send, RDMA Write or RDMA Read of the initiator, as its first FPDU.
TEST(SimMessageForms, OnlyAnEmptyFirstMessageOfTheInitiatorIsItsRtr) {
  for (unsigned opcode = 0; opcode < 16; ++opcode)
    for (const bool is_tagged : {false, true})
      for (const std::size_t length : {2u, 13u, 14u, 15u, 17u, 18u, 19u, 45u, 46u, 47u})
        for (const bool initiator : {true, false})
          for (const bool markers : {false, true}) {
            MessageTracker t;
            Sender s;
            s.active = initiator;
            t.look(s.syn());
            const Bytes one = any_segment(opcode, is_tagged, length);
            const FrameContent m = t.look(s.at(0, (initiator ? request() : reply()) + fpdus({one, one}, markers)));
            const bool send = !is_tagged && opcode >= 3 && opcode <= 6 && length == 18;
            const bool write = is_tagged && opcode == 0 && length == 14;
            const bool read = !is_tagged && opcode == 1 && length == 46;  // its size is 0
            std::string want = initiator ? "mpa_request, " : "mpa_reply, ";
            const bool last = !is_tagged && opcode == 7 && length >= 18;
            want += "fpdu 1";
            if (initiator && (send || write || read)) want += ", mpa_rtr 1";
            want += last ? ", terminate 1, fpdu 2, terminate 2" : ", fpdu 2";
            EXPECT_EQ(parts_of(m), want) << "opcode " << opcode << (is_tagged ? ", tagged, " : ", untagged, ") << length
                                         << " octets" << (markers ? ", markers" : "");
          }
}

TEST(SimMessageForms, AReadIsAnRtrIfItAsksForNothing) {
  for (const std::uint32_t size : {0u, 1u, 0x100u, 0x10000u, 0x1000000u})
    for (const std::size_t mss : {1u, 33u, 1400u}) {
      MessageTracker t;
      const Sender s;
      t.look(s.syn());
      const Bytes all = request() + fpdus({empty_read(size)});
      std::string seen;
      for (std::size_t at = 0; at < all.size(); at += mss)
        seen += " " + parts_of(t.look(s.at(at, ConstBytes(all).subspan(at, std::min(mss, all.size() - at)))));
      EXPECT_EQ(seen.find("mpa_rtr") != std::string::npos, size == 0) << size << seen;
    }
}

constexpr std::pair<MessageField, std::string_view> all_fields[] = {
    {MessageField::key, "key"},          {MessageField::flags, "flags"},     {MessageField::revision, "revision"},
    {MessageField::pd_length, "length"}, {MessageField::private_data, "pd"}, {MessageField::length, "ulpdu_length"},
    {MessageField::payload, "payload"},  {MessageField::marker, "marker"},   {MessageField::crc, "crc"}};

/// The fields of a message: where each begins and ends in its stream.
void add_fields(Tally& tally, const MessageStream& s, std::uint64_t start) {
  const std::optional<StreamMessage> m = s.at(start);
  if (!m) return;
  for (const auto& [field, name] : all_fields) {
    const std::uint32_t size = s.field_size(*m, field);
    if (size > 0)
      tally.add(fmt::format("field {}", name), {static_cast<std::int64_t>(s.field_octet(*m, field, 0)),
                                                static_cast<std::int64_t>(s.field_octet(*m, field, size - 1))});
  }
}

/// A stream of startup frames and FPDUs, of which a few octets may be wrong.
Bytes drawn_stream(Rng& rng, bool initiator) {
  Bytes out = initiator ? request(PARLEY_MPA_FLAG_C, Bytes(rng.below(30), 'p'))
                        : reply(PARLEY_MPA_FLAG_C, Bytes(rng.below(30), 'p'));
  if (initiator && rng.below(4) == 0) out = out + startup(wire::MpaKey::rtr, 0, 1);
  std::vector<Bytes> ulpdus;
  for (std::uint64_t n = rng.between(1, 5); n > 0; --n) {
    const Bytes kinds[] = {empty_send(), empty_write(), empty_read(), send_segment(2, rng.below(600)), terminate()};
    ulpdus.push_back(kinds[rng.below(5)]);
  }
  out = out + fpdus(ulpdus, rng.below(2) == 0);
  if (rng.below(4) == 0)
    out[rng.below(std::min<std::size_t>(out.size(), 80))] ^= static_cast<std::uint8_t>(1U << rng.below(8));
  return out;
}

TEST(SimMessageForms, FramesOfDrawnConnections) {
  std::string out =
      "# The first seeds frame by frame; then of 160 how often each message was seen, and sums of its numbers.\n";
  Tally tally;
  for (std::uint64_t seed = 1; seed <= 160; ++seed) {
    Rng rng(seed);
    MessageTracker t(rng.below(5) == 0 ? StreamDepth::startup : StreamDepth::fpdus);
    Sender s;
    s.active = rng.below(3) != 0;
    s.ipv6 = rng.below(3) == 0;
    s.isn = rng.below(3) == 0 ? 0xFFFF'FFE0 : 1000;
    const Bytes all = drawn_stream(rng, s.active);
    std::vector<Bytes> frames{s.syn()};
    const std::size_t longest = rng.below(2) == 0 ? 40 : 700;
    for (std::size_t at = 0; at < all.size();) {
      const std::size_t n = std::min<std::size_t>(rng.between(1, longest), all.size() - at);
      const std::size_t back = rng.below(5) == 0 ? std::min<std::size_t>(at, rng.below(30)) : 0;
      if (rng.below(12) != 0) frames.push_back(s.at(at - back, ConstBytes(all).subspan(at - back, n + back)));
      if (rng.below(8) == 0) frames.push_back(Bytes(frames[rng.below(frames.size())]));
      at += n;
    }
    for (std::uint64_t n = rng.below(3); n > 0; --n) std::swap(frames[rng.below(frames.size())], frames.back());
    std::string line;
    for (const Bytes& frame : frames) {
      const FrameContent m = t.look(frame);
      const bool placed = m.position != FrameContent::nowhere;
      const std::string kind = fmt::format("{}{}", to_string(m.kind),
                                           m.repeated ? ", repeated"
                                           : placed   ? ""
                                                      : ", nowhere");
      tally.add(kind, {m.connection, placed ? static_cast<std::int64_t>(m.position) : 0, m.payload_size});
      line += fmt::format(" / {}{}", kind, placed ? fmt::format(" {}+{}", m.position, m.payload_size) : "");
      for (const Part& p : m.parts) {
        const auto at = static_cast<std::int64_t>(p.offset - m.payload_offset);
        tally.add(fmt::format("{} {} in {}", to_string(p.message), p.fpdu, kind),
                  {at, p.size, p.whole, static_cast<std::int64_t>(p.position)});
        line +=
            fmt::format(" {} {} at {}, {}/{} from {}", to_string(p.message), p.fpdu, at, p.size, p.whole, p.position);
        if (p.fpdu == 1 && p.message == MessageKind::fpdu) add_fields(tally, *t.stream(m.connection), p.position);
      }
    }
    if (const MessageStream* stream = t.stream(1)) add_fields(tally, *stream, 0);
    if (seed <= 40)
      out += fmt::format("{}: {} octets{}{}\n", seed, all.size(), s.active ? "" : " of the responder", line);
  }
  expect_as_reviewed("sim_messages_drawn.txt", out + tally.text());
}

}  // namespace
}  // namespace parley::sim::test

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Frames in words, as a ladder shows them, beside tests/states/sim_frames.txt: headers with all their fields, and what
// becomes of the messages of a stream.
#include <gmock/gmock.h>

#include <fmt/format.h>

#include <array>

#include "record_kit.hpp"
#include "sim/host/host_frames.hpp"
#include "sim/record/describe.hpp"
#include "tests/unit/reviewed.hpp"
#include "tests/unit/runs.hpp"

namespace parley::sim::test {
namespace {

using namespace std::chrono_literals;

/// Frames in the order of sending, and then a line for each: "layer  text | detail", "again" if it was sent before.
class CmEventKind {
 public:
  void show(ConstBytes frame) { seen_.push_back(describer_.look(frame, Instant{})); }
  void show(const vt::Exchange& x) {
    for (const auto& frame : x.frames) show(frame.octets);
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> out;
    for (const Describer::Seen& seen : seen_) {
      const auto w = describer_.row_text(seen);
      out.push_back(fmt::format("{} {}{}{}{}", w.layer, w.text, w.detail.empty() ? "" : " | ", w.detail,
                                seen.repeated ? " (again)" : ""));
    }
    return out;
  }
  std::string in_full() const {
    std::string out;
    const std::vector<std::string> heads = lines();
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      const Describer::Seen& seen = seen_[i];
      const auto end = [](const std::optional<Address>& a, std::uint16_t port) {
        return a ? fmt::format("{} port {}", a->to_string(), port) : std::string("everyone");
      };
      out += fmt::format("{}\n  {} > {}", heads[i], end(seen.from, seen.from_port), end(seen.to, seen.to_port));
      for (const auto& [name, value] : describer_.row_text(seen).fields)
        out += value.empty() ? fmt::format("\n  [{}]", name) : fmt::format(" {}: {};", name, value);
      out += "\n";
    }
    return out;
  }

 private:
  Describer describer_;
  std::vector<Describer::Seen> seen_;
};

Bytes frame_octets(const FramePtr& frame) { return Bytes(frame->octets().begin(), frame->octets().end()); }

/// Frames of host a (number 0) to host b (number 1).
class Frames {
 public:
  Bytes arp(std::uint8_t operation, const Address& target) {
    wire::ArpPacket p{.reply = operation == 2, .sender_mac = a_.mac, .sender_ip = {10, 0, 0, 1}, .target_mac = {}};
    std::copy_n(target.octets.begin(), 4, p.target_ip.begin());
    Bytes out = frame_octets(write_arp(pool_, wire::broadcast_mac, p));
    out[21] = operation;
    return out;
  }
  Bytes neighbour(const wire::NeighbourMessage& m, const wire::Ip6& to) {
    return frame_octets(write_neighbour(pool_, a_.mac, wire::group_mac(to), a_.v6.octets, to, m));
  }
  Bytes tcp(LocalKind kind, const wire::TcpHeader& header, ConstBytes payload = {}) {
    const ConstBytes pieces[] = {payload};
    return frame_octets(write_segment(pool_, a_, kind, b_.of(kind).octets, header, pieces, 0x1234));
  }
  const PortAddresses& a() const { return a_; }
  const PortAddresses& b() const { return b_; }

 private:
  FramePool pool_;
  PortAddresses a_ = make_addresses(0, 0, 0), b_ = make_addresses(1, 0, 0);
};

wire::TcpHeader header(std::uint8_t flags, std::uint32_t seq, std::uint32_t ack) {
  wire::TcpHeader h;
  h.source_port = 40000;
  h.destination_port = 7471;
  h.seq = seq;
  h.ack = ack;
  h.flags = flags;
  h.window = 500;
  return h;
}

void show_neighbours(Frames& f, CmEventKind& told) {
  told.show(f.arp(1, f.b().v4));
  told.show(f.arp(1, f.a().v4));
  told.show(f.arp(2, f.b().v4));
  told.show(f.arp(3, f.b().v4));
  const wire::Ip6& target = f.b().v6.octets;
  told.show(f.neighbour({.target = target, .link_address = f.a().mac}, wire::solicited_node(target)));
  told.show(f.neighbour({.target = target}, target));
  told.show(f.neighbour({.advert = true, .router = true, .target = f.a().link_local.octets, .link_address = f.a().mac},
                        wire::all_nodes));
  told.show(f.neighbour({.advert = true, .solicited = true, .target = f.a().v6.octets}, target));
  told.show(f.neighbour({.advert = true, .overrides = true, .target = f.a().v6.octets}, target));
  // Options of another type, or longer than a MAC address needs.
  Bytes option = f.neighbour({.target = target, .link_address = f.a().mac}, target);
  option[78] = 14;
  told.show(option);
  option[78] = 2;
  told.show(option);
  option[79] = 2;
  told.show(option);
  Bytes echo = f.neighbour({.target = target}, target);
  echo[54] = 128;
  told.show(echo);
}

void show_segments(Frames& f, CmEventKind& told, LocalKind kind) {
  using namespace wire::tcp_flag;
  wire::TcpHeader open = header(syn, 1000, 0);
  told.show(f.tcp(kind, open));
  open.mss = 1460;
  open.window_scale = 0;
  open.sack_permitted = open.timestamps = true;
  open.ts_value = 77;
  open.ts_echo = 66;
  told.show(f.tcp(kind, open));
  told.show(f.tcp(kind, header(syn | ack, 1000, 5)));
  told.show(f.tcp(kind, header(ack, 1001, 5)));
  wire::TcpHeader blocks = header(ack, 1001, 5);
  blocks.sack_count = 2;
  blocks.sack = {{{15, 25}, {35, 45}}};
  told.show(f.tcp(kind, blocks));
  blocks.window = 0;
  told.show(f.tcp(kind, blocks));
  told.show(f.tcp(kind, header(ack | psh, 1001, 5), Bytes{'h', 'i', '!'}));
  told.show(f.tcp(kind, header(ack | psh | fin, 1004, 5), Bytes{'b', 'y', 'e'}));
  told.show(f.tcp(kind, header(ack | fin, 1007, 5)));
  wire::TcpHeader reset = header(rst | ack, 1008, 5);
  reset.window = 0;
  told.show(f.tcp(kind, reset));
}

TEST(SimDescribe, OnlyAnArpRequestOfAHostForItsOwnAddressIsAnAnnouncement) {
  Frames f;
  CmEventKind told;
  told.show(f.arp(1, f.a().v4));
  told.show(f.arp(2, f.a().v4));
  ASSERT_EQ(told.lines().size(), 2U);
  EXPECT_THAT(told.lines()[0], testing::HasSubstr("ARP announcement"));
  EXPECT_THAT(told.lines()[1], testing::HasSubstr("ARP reply"));
}

TEST(SimDescribe, HeadersAreToldAsReviewed) {
  Frames f;
  std::string out;
  const auto part = [&out](std::string_view title, const CmEventKind& told) {
    out += fmt::format("==== {}\n{}", title, told.in_full());
  };
  CmEventKind neighbours, v4, v6, odd;
  show_neighbours(f, neighbours);
  part("ARP and neighbour discovery", neighbours);
  show_segments(f, v4, LocalKind::v4);
  part("TCP over IPv4", v4);
  show_segments(f, v6, LocalKind::link_local);
  part("TCP over IPv6", v6);
  Bytes frame = f.tcp(LocalKind::v4, header(wire::tcp_flag::ack, 1, 1));
  odd.show(ConstBytes(frame).first(13));
  odd.show(ConstBytes(frame).first(14));
  odd.show(ConstBytes(frame).first(33));
  odd.show(ConstBytes(frame).first(34));
  frame[17] = 20;  // the IPv4 header is all there is
  odd.show(frame);
  frame[17] = 19;
  odd.show(frame);
  frame[17] = 40;
  frame[23] = 17;
  odd.show(frame);
  frame[20] = 0x20;  // more fragments, from octet 8 on
  frame[21] = 1;
  frame[15] = 0xB9;
  odd.show(frame);
  frame[12] = 0x88;
  odd.show(frame);
  Bytes v6_frame = f.tcp(LocalKind::v6, header(wire::tcp_flag::ack, 1, 1));
  v6_frame[14] = 0x6A;  // traffic class AB, flow label 6543C
  v6_frame[15] = 0xB6;
  v6_frame[16] = 0x54;
  v6_frame[17] = 0x3C;
  v6_frame[21] = 77;
  odd.show(v6_frame);
  v6_frame[20] = 44;
  odd.show(v6_frame);
  part("neither", odd);
  expect_as_reviewed("sim_frames.txt", out);
}

// ---- streams --------------------------------------------------------------------------------------------------------

TEST(SimDescribe, AStreamWithoutItsSynIsToldFromItsFirstOctet) {
  vt::Exchange x;
  x.send(0, Bytes(100, 'x')).acknowledge(1).send(0, Bytes(50, 'x')).acknowledge(1);
  x.seq(0) -= 150;
  x.send(0, Bytes(100, 'x')).send(0, Bytes(50, 'x')).send(0, Bytes(9, 'x'));
  CmEventKind told;
  told.show(x);
  EXPECT_THAT(told.lines(), testing::ElementsAre("tcp 100 octets", "ack ACK | 100", "tcp 50 octets", "ack ACK | 150",
                                                 "tcp 100 octets (again)", "tcp 50 octets (again)", "tcp 9 octets"));
}

TEST(SimDescribe, SynAndFinAreToldAsSentAgain) {
  vt::Exchange x;
  x.open().fin(0);
  CmEventKind told;
  told.show(x);
  told.show(x.frames[0].octets);
  told.show(x.frames[1].octets);
  told.show(x.frames[3].octets);
  EXPECT_THAT(told.lines(),
              testing::ElementsAre("tcp SYN | mss=1460", "tcp SYN ACK | mss=1460", "ack ACK | 0", "tcp FIN",
                                   "tcp SYN | mss=1460 (again)", "tcp SYN ACK | mss=1460 (again)", "tcp FIN (again)"));
}

TEST(SimDescribe, TheSamePortsAgainAreAnotherStream) {
  vt::Exchange first, second(false, 7777, 8888);
  first.set_up().fin(0);
  second.set_up();
  CmEventKind told;
  told.show(first);
  told.show(second);
  const auto lines = told.lines();
  ASSERT_EQ(lines.size(), 11U);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(lines[6 + i], lines[i]);
}

TEST(SimDescribe, EveryStartupFrameHasItsName) {
  using wire::MpaKey;
  const auto lines_of = [](MpaKey first, std::uint8_t flags, MpaKey answer, std::uint8_t answer_flags, MpaKey third) {
    vt::Exchange x;
    x.send(0, vt::startup(first, flags, 1)).send(1, vt::startup(answer, answer_flags, 1));
    x.send(0, vt::startup(third, 0, 1));
    CmEventKind told;
    told.show(x);
    return told.lines();
  };
  const std::uint8_t c = PARLEY_MPA_FLAG_C, s = PARLEY_MPA_FLAG_S, r = PARLEY_MPA_FLAG_R;
  EXPECT_THAT(
      lines_of(MpaKey::req, c | s, MpaKey::rep, c | s, MpaKey::rtr),
      testing::ElementsAre("mpa MPA Request | rev=1 C S", "mpa MPA Reply | rev=1 C S", "mpa MPA Rtr frame | rev=1"));
  EXPECT_THAT(lines_of(MpaKey::req, 0, MpaKey::rep, r, MpaKey::rtr_hex),
              testing::ElementsAre("mpa MPA Request | rev=1", "mpa MPA Reply: rejected | rev=1 R",
                                   "mpa MPA Rtr frame | rev=1"));
}

/// Three messages of one end behind a SYN, each in a frame of its own or all in one.
std::vector<std::string> described_of_three(const std::array<const Bytes*, 3>& messages, bool together) {
  vt::Exchange x;
  x.open();
  Bytes all;
  for (const Bytes* m : messages) {
    all.insert(all.end(), m->begin(), m->end());
    if (!together) x.send(0, *m);
  }
  if (together) x.send(0, all);
  CmEventKind told;
  told.show(x);
  std::vector<std::string> lines = told.lines();
  lines.erase(lines.begin(), lines.begin() + 3);  // the handshake
  return lines;
}

TEST(SimDescribe, StartupFramesInEveryOrderAreToldAsReviewed) {
  using wire::MpaKey;
  struct Message {
    std::string_view name;
    Bytes octets;
  };
  Bytes odd = vt::startup(MpaKey::req, 0, 1);
  odd[7] = 'X';
  const Message messages[] = {{"Request", vt::startup(MpaKey::req, 0, 1)},
                              {"Reply", vt::startup(MpaKey::rep, 0, 1)},
                              {"Rtr", vt::startup(MpaKey::rtr, 0, 1)},
                              {"odd key", odd},
                              {"Send", vt::fpdu(vt::send_segment(1, 0))}};
  Runs runs;
  for (const Message& first : messages)
    for (const Message& second : messages)
      for (const Message& third : messages) {
        std::string outcome;
        for (const bool together : {false, true}) {
          const auto lines = described_of_three({&first.octets, &second.octets, &third.octets}, together);
          outcome += fmt::format("{}{}", together ? " || " : "", fmt::join(lines, "; "));
        }
        runs.add(fmt::format("{} {} {}", first.name, second.name, third.name), outcome);
      }
  expect_as_reviewed("sim_startup_frames.txt", runs.text());
}

TEST(SimDescribe, MessagesOfAFrameAreCountedAndTheirNumbersTold) {
  vt::Exchange x;
  x.set_up();
  const auto all = [](std::initializer_list<Bytes> ulpdus) {
    Bytes out;
    for (const Bytes& u : ulpdus) {
      const Bytes f = vt::fpdu(u);
      out.insert(out.end(), f.begin(), f.end());
    }
    return out;
  };
  const Bytes write = vt::tagged(wire::RdmapOpcode::rdma_write, 7, 0, 4);
  const Bytes read = vt::read_request(1, {1, 2, 3, 4, 5});
  const auto send = [](std::uint32_t n) { return vt::send_segment(n, 4); };
  x.send(0, all({send(1)}));
  x.send(0, all({write, send(2), send(3)}));
  x.send(0, all({write, read, write, read}));
  x.send(0, all({send(4), send(5), send(6), send(7), send(8), send(9), send(10), send(11)}));
  x.send(0, all({send(12), send(13), send(14), send(15), send(16), send(17), send(18), send(19), send(20)}));
  CmEventKind told;
  told.show(x);
  const auto lines = told.lines();
  EXPECT_THAT(lines[5], testing::StartsWith("rdmap Send | "));
  EXPECT_EQ(lines[6], "rdmap RDMA Write + 2x Send | FPDUs 2 to 4");
  EXPECT_EQ(lines[7], "rdmap RDMA Write + RDMA Read Request + RDMA Write + ... | FPDUs 5 to 8");
  EXPECT_EQ(lines[8], "rdmap 8x Send | FPDUs 9 to 16");
  EXPECT_EQ(lines[9], "rdmap 9x Send | FPDUs 17 to 25");
  const std::string full = told.in_full();
  EXPECT_THAT(full, testing::HasSubstr("\n  [FPDU 16] "));
  EXPECT_THAT(full, testing::HasSubstr("\n  [FPDU 24] "));
  EXPECT_THAT(full, testing::Not(testing::HasSubstr("[FPDU 25]")));
  EXPECT_THAT(full, testing::HasSubstr("  [1 more messages in this frame]\n"));
}

TEST(SimDescribe, AMessageThatNeverEndsAndALengthThatNoneCanHaveAreTold) {
  vt::Exchange cut;
  const Bytes one = vt::fpdu(vt::send_segment(1, 100));
  cut.set_up().send(0, ConstBytes(one).first(40));
  CmEventKind told;
  told.show(cut);
  EXPECT_EQ(told.lines().back(), "rdmap 40 octets of a message that does not end");
  vt::Exchange bad;
  bad.set_up().send(0, Bytes{0xFF, 0xFF, 0, 0, 1, 2, 3, 4});
  CmEventKind of_bad;
  of_bad.show(bad);
  EXPECT_EQ(of_bad.lines().back(),
            "rdmap FPDU + 6 octets of a message that does not end | ULPDU_Length 65535, which none can have");
}

}  // namespace
}  // namespace parley::sim::test

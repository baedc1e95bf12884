// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Captures made in memory for tests: an MPA connection as Ethernet frames that a test may lose, cut, double or reorder.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "capture/analyzer.hpp"
#include "mpa/crc32c.hpp"
#include "wire/mpa.hpp"
#include "wire/packet.hpp"
#include "wire/pcapng.hpp"
#include "wire/rdmap.hpp"

namespace parley::capture::test {

struct Frame {
  Bytes octets;
  Instant at{};
  std::uint32_t original_length = 0;
};
using Frames = std::vector<Frame>;

/// What holds of every report: a finding stands inside its connection, and is of the side that it begins with.
inline void expect_sound(const FileReport& r) {
  for (const ConnectionReport& c : r.connections)
    for (const Finding& f : c.findings) {
      EXPECT_TRUE(f.frame == 0 || (f.frame >= c.first_frame && f.frame <= c.last_frame)) << f.frame << " " << f.text;
      for (const Side side : {Side::initiator, Side::responder}) {
        if (!f.text.starts_with("the " + std::string(to_string(side)) + " ")) continue;
        EXPECT_EQ(f.side, side) << f.text;
      }
    }
}

inline FileReport analyse(const Frames& frames, const AnalyzerOptions& options, std::uint16_t link_type = 1) {
  Analyzer analyzer(options);
  std::uint64_t number = 0;
  for (const Frame& f : frames) {
    wire::CapturedPacket p;
    p.frame = ++number;
    p.at = f.at;
    p.link_type = link_type;
    p.octets = f.octets;
    p.original_length = std::max<std::uint32_t>(f.original_length, static_cast<std::uint32_t>(f.octets.size()));
    analyzer.push(p);
  }
  FileReport r = analyzer.finish();
  expect_sound(r);
  return r;
}
inline FileReport analyse(const Frames& frames, std::uint16_t link_type = 1, bool events = false) {
  return analyse(frames, AnalyzerOptions{.events = events}, link_type);
}

inline std::string words(const FileReport& r) {
  std::string out;
  for (const auto& c : r.connections)
    for (const auto& f : c.findings)
      out += std::string(to_string(f.severity)) + " frame " + std::to_string(f.frame) + ": " + f.text + " [" + f.rule +
             "]\n";
  return out;
}

inline bool has(const FileReport& r, Severity severity, std::string_view part) {
  for (const auto& c : r.connections)
    for (const auto& f : c.findings)
      if (f.severity == severity && (f.text + " [" + f.rule + "]").find(part) != std::string::npos) return true;
  return false;
}

/// An FPDU written the slow way, straight from RFC 5044 §4: word by word, markers where they fall.
inline Bytes fpdu(ConstBytes ulpdu, std::uint64_t position = 0, bool markers = false, bool crc = true) {
  Bytes plain{static_cast<std::uint8_t>(ulpdu.size() >> 8), static_cast<std::uint8_t>(ulpdu.size())};
  plain.insert(plain.end(), ulpdu.begin(), ulpdu.end());
  while (plain.size() % 4 != 0) plain.push_back(0);
  Bytes out;
  std::optional<std::uint64_t> header;
  const auto marker = [&] {
    if (!markers || (position + out.size()) % 512 != 0) return;
    const std::uint64_t back = header ? position + out.size() - *header : 0;
    out.insert(out.end(), {0, 0, static_cast<std::uint8_t>(back >> 8), static_cast<std::uint8_t>(back)});
  };
  for (std::size_t i = 0; i < plain.size(); i += 4) {
    marker();
    if (!header) header = position + out.size();
    out.insert(out.end(), plain.begin() + static_cast<std::ptrdiff_t>(i),
               plain.begin() + static_cast<std::ptrdiff_t>(i + 4));
  }
  marker();
  std::uint32_t sum = crc ? mpa::crc32c(out) : 0;
  for (int i = 0; i < 4; ++i, sum >>= 8) out.push_back(static_cast<std::uint8_t>(sum));
  return out;
}

inline Bytes segment(wire::DdpHeader header, ConstBytes payload = {}) {
  Bytes out(header.size());
  header.emit(out);
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}
inline Bytes send_segment(std::uint32_t msn, std::size_t payload, std::uint32_t mo = 0, bool last = true) {
  wire::DdpHeader h;
  h.last = last;
  h.msn = msn;
  h.mo = mo;
  Bytes data(payload);
  for (std::size_t i = 0; i < payload; ++i) data[i] = static_cast<std::uint8_t>(msn * 7 + mo + i);
  return segment(h, data);
}
inline Bytes read_request(std::uint32_t msn, const wire::ReadRequest& q) {
  wire::DdpHeader h;
  h.opcode = wire::RdmapOpcode::read_request;
  h.qn = 1;
  h.msn = msn;
  std::array<std::uint8_t, PARLEY_RDMAP_READ_REQUEST_LEN> body{};
  q.emit(body);
  return segment(h, body);
}
inline Bytes tagged(wire::RdmapOpcode opcode, std::uint32_t stag, std::uint64_t to, std::size_t payload,
                    bool last = true) {
  wire::DdpHeader h;
  h.tagged = true;
  h.last = last;
  h.opcode = opcode;
  h.stag = stag;
  h.to = to;
  return segment(h, Bytes(payload, 0x5A));
}
inline Bytes startup(wire::MpaKey key, std::uint8_t flags, std::uint8_t revision,
                     std::optional<wire::MpaEnhanced> enhanced = {}, ConstBytes private_data = {}) {
  wire::MpaFrame f;
  f.key = key;
  f.flags = flags;
  f.revision = revision;
  f.enhanced = enhanced;
  f.private_data = private_data;
  return f.emit().value_or(Bytes{});
}

inline Address end_a(bool v6) {
  Address a = Address::v4(192, 0, 2, 1, 40000);
  if (!v6) return a;
  a.family = Address::Family::v6;
  a.octets = {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return a;
}
inline Address end_b(bool v6) {
  Address b = end_a(v6);
  b.octets[v6 ? 15 : 3] = 2;
  b.port = 9001;
  return b;
}

/// Writes what two ends send as frames, one millisecond apart.
class Exchange {
 public:
  explicit Exchange(bool v6 = false, std::uint32_t isn_a = 1000, std::uint32_t isn_b = 900000)
      : Exchange(end_a(v6), end_b(v6), isn_a, isn_b) {}
  Exchange(const Address& a, const Address& b, std::uint32_t isn_a, std::uint32_t isn_b) {
    ends_[0] = {a, isn_a, isn_b};
    ends_[1] = {b, isn_b, isn_a};
  }

  Exchange& vlan(std::vector<std::uint16_t> ids) {
    vlans_ = std::move(ids);
    return *this;
  }
  Exchange& open() {
    add(0, wire::tcp_flag::syn, {});
    ++ends_[0].seq;
    ends_[1].ack = ends_[0].seq;
    add(1, wire::tcp_flag::syn | wire::tcp_flag::ack, {});
    ++ends_[1].seq;
    ends_[0].ack = ends_[1].seq;
    return acknowledge(0);
  }
  Exchange& acknowledge(unsigned from) {
    add(from, wire::tcp_flag::ack, {});
    return *this;
  }
  /// Sends octets from the initiator (0) or the responder (1), in segments of at most `mss`.
  Exchange& send(unsigned from, ConstBytes octets, std::size_t mss = 1460) {
    while (!octets.empty()) {
      const std::size_t n = std::min(mss, octets.size());
      add(from, wire::tcp_flag::ack | wire::tcp_flag::psh, octets.first(n));
      ends_[from].seq += static_cast<std::uint32_t>(n);
      ends_[1 - from].ack = ends_[from].seq;
      octets = octets.subspan(n);
    }
    return *this;
  }
  Exchange& fin(unsigned from) {
    add(from, wire::tcp_flag::fin | wire::tcp_flag::ack, {});
    ++ends_[from].seq;
    ends_[1 - from].ack = ends_[from].seq;
    return *this;
  }
  Exchange& rst(unsigned from) {
    add(from, wire::tcp_flag::rst | wire::tcp_flag::ack, {});
    return *this;
  }
  Exchange& wait(Duration d) {
    now_ += d;
    return *this;
  }
  /// Revision 1, CRC on: Request and Reply.
  Exchange& set_up() {
    return open()
        .send(0, startup(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1))
        .send(1, startup(wire::MpaKey::rep, PARLEY_MPA_FLAG_C, 1));
  }
  Exchange& close() { return fin(0).fin(1).acknowledge(0); }
  void add(unsigned from, std::uint8_t flags, ConstBytes payload) {
    const End& e = ends_[from];
    wire::TcpFrame f;
    f.source = e.address;
    f.destination = ends_[1 - from].address;
    f.seq = e.seq;
    f.ack = (flags & wire::tcp_flag::ack) != 0 ? e.ack : 0;
    f.flags = flags;
    f.mss = (flags & wire::tcp_flag::syn) != 0 ? std::uint16_t{1460} : std::uint16_t{0};
    f.payload = payload;
    f.vlans = vlans_;
    now_ += std::chrono::milliseconds(1);
    frames.push_back({wire::emit_tcp_frame(f).value_or(Bytes{}), now_, 0});
  }
  std::uint32_t& seq(unsigned from) { return ends_[from].seq; }

  Frames frames;

 private:
  struct End {
    Address address;
    std::uint32_t seq = 0, ack = 0;
  };
  std::array<End, 2> ends_;
  std::vector<std::uint16_t> vlans_;
  Instant now_{std::chrono::seconds(1'000'000)};
};

/// A clean conversation with Sends both ways (one of several segments), Writes and Reads.
inline Exchange conversation(bool v6 = false, bool markers = false, std::uint32_t isn = 1000) {
  Exchange x(v6, isn, isn + 77);
  const std::uint8_t flags = PARLEY_MPA_FLAG_C | (markers ? PARLEY_MPA_FLAG_M : 0);
  x.open().send(0, startup(wire::MpaKey::req, flags, 1)).send(1, startup(wire::MpaKey::rep, flags, 1));
  std::array<std::uint64_t, 2> at{};
  const auto say = [&](unsigned from, const Bytes& ulpdu) {
    const Bytes f = fpdu(ulpdu, at[from], markers);
    at[from] += f.size();
    x.send(from, f);
  };
  std::array<std::uint32_t, 2> msn{1, 1};
  for (std::uint32_t round = 0; round < 6; ++round) {
    say(0, send_segment(msn[0]++, 16 + round));
    say(1, read_request(round + 1, {0x11, 0x1000, 1800, 0x22, 0x2000}));
    say(0, tagged(wire::RdmapOpcode::read_response, 0x11, 0x1000, 1200, false));
    say(0, tagged(wire::RdmapOpcode::read_response, 0x11, 0x1000 + 1200, 600));
    say(1, tagged(wire::RdmapOpcode::rdma_write, 0x33, 0x3000, 700));
    say(1, send_segment(msn[1], 1000, 0, false));
    say(1, send_segment(msn[1]++, 500, 1000));
  }
  x.close();
  return x;
}

inline Bytes read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

inline FileReport analyse_file(ConstBytes file, bool events = false) {
  Analyzer analyzer({.events = events});
  const auto error = wire::read_capture(file, [&](const wire::CapturedPacket& p) { analyzer.push(p); });
  if (error) analyzer.note(error->to_string());
  return analyzer.finish();
}

inline const std::vector<std::string>& capture_names() {
  static const std::vector<std::string> names{"made_01_v1_nomarker",
                                              "made_02_markers_both_one_per_seg",
                                              "made_08_marker_between_fpdus_and_before_crc",
                                              "made_10_badcrc",
                                              "made_12_v2_rtr_read",
                                              "made_12_v2_rtr_send",
                                              "made_15_2007_rtr_frame_text",
                                              "made_17_ipv6",
                                              "made_20_terminate_variants",
                                              "siw_probe_fpdus_terminates",
                                              "siw_probe_initiator",
                                              "siw_probe_startup",
                                              "siw_v1",
                                              "siw_v2_crc",
                                              "siw_v2_p2p_write_rtr",
                                              "siw_v2_reject",
                                              "siw_v2_rping_ucmatose"};
  return names;
}
inline std::string capture_path(const std::string& name) {
  return std::string(PARLEY_SOURCE_DIR) + "/tests/captures/iwarp/" + name + ".pcap";
}

/// What a capture draws of severity error, a line each: "text [rule]".
inline std::string errors(const Exchange& x) {
  std::string out;
  for (const auto& c : analyse(x.frames).connections)
    for (const auto& f : c.findings)
      if (f.severity == Severity::error) out += f.text + " [" + f.rule + "]\n";
  return out;
}

}  // namespace parley::capture::test

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Anonymizes captures in memory, and compares verdicts but for what has to differ.
#pragma once
#include <algorithm>
#include <regex>
#include <string>

#include "capture/anonymize/anonymize.hpp"
#include "capture/report/json.hpp"
#include "tests/unit/capture/exchange.hpp"

namespace parley::capture::test {

inline Bytes to_pcap(const Frames& frames, std::uint16_t link_type = 1) {
  Bytes out;
  wire::PcapWriter w(out, link_type);
  for (const Frame& f : frames) w.packet(f.at, f.octets, f.original_length);
  return out;
}

struct Anonymized {
  Bytes file;
  std::string refusal;
  StreamCounts streams;
  FrameCounts frames;
  ContainerCounts container;
};

inline Anonymized anonymize(ConstBytes file, AnonymizeOptions options = {}, std::string_view key = "a key") {
  options.key = AnonymizeKey::from_text(key);
  Anonymizer work(options);
  (void)wire::read_capture(file, [&](const wire::CapturedPacket& p) { work.note(p); });
  work.learned();
  Anonymized out;
  out.refusal = work.refusal();
  // In windows that end anywhere, as a file is read.
  for (std::size_t shown = 1; out.refusal.empty();) {
    std::size_t consumed = 0;
    const bool all = shown >= file.size();
    const auto status = work.rewrite(file.first(std::min(shown, file.size())), out.file, consumed);
    file = file.subspan(consumed);
    if (status == wire::CaptureStatus::error || (status == wire::CaptureStatus::need_more && all)) break;
    shown = status == wire::CaptureStatus::packet ? 1 : shown * 3 + 1;
  }
  out.streams = work.streams();
  out.frames = work.frames();
  out.container = work.container();
  return out;
}

/// What people see of a file, without addresses, private data and the numbers that octets in a finding give.
inline std::string comparable(ConstBytes file, bool with_numbers = false) {
  FileReport r = analyse_file(file);
  static const std::regex crc("CRC [0-9a-f]{8}, its octets give [0-9a-f]{8}"), number("0x[0-9a-f]+"),
      marker("FPDUPTR [0-9]+");
  for (auto& c : r.connections) {
    c.initiator = c.responder = {};
    for (auto* s : {&c.request, &c.reply, &c.rtr_frame})
      if (*s) std::fill((*s)->private_data.begin(), (*s)->private_data.end(), std::uint8_t{0});
    for (auto& f : c.findings) {
      f.text = std::regex_replace(f.text, crc, "CRC #");
      if (with_numbers) continue;
      f.text = std::regex_replace(f.text, number, "#");
      f.text = std::regex_replace(f.text, marker, "FPDUPTR #");
    }
    std::stable_sort(c.findings.begin(), c.findings.end(), [](const Finding& a, const Finding& b) {
      return std::tie(a.frame, a.text) < std::tie(b.frame, b.text);
    });
  }
  return to_json("", r, 1);
}

inline bool contains(const Bytes& file, ConstBytes secret) {
  return std::search(file.begin(), file.end(), secret.begin(), secret.end()) != file.end();
}
inline bool contains(const Bytes& file, std::string_view secret) {
  return std::search(file.begin(), file.end(), secret.begin(), secret.end(),
                     [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); }) != file.end();
}

}  // namespace parley::capture::test

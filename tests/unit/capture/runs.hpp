// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Tables of what becomes of a capture when each of its octets in turn is altered, cut off or lost: neighbouring cases of
// one outcome share a line.
#pragma once
#include <fmt/format.h>

#include <map>

#include "capture/report/text.hpp"
#include "tests/unit/capture/exchange.hpp"

namespace parley::capture::test {

/// Numbers of octets that go with a case, each by a letter that stands for it in the table.
using Numbers = std::vector<std::pair<char, std::size_t>>;
inline std::string by_letters(std::string text, const Numbers& numbers) {
  for (const auto& [letter, value] : numbers) {
    const std::string number = std::to_string(value);
    for (std::size_t at = text.find(number + " octet"); at != std::string::npos; at = text.find(number + " octet", at))
      if (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9')
        ++at;
      else
        text.replace(at, text.find_first_of(" \n,", at + number.size() + 1) - at, std::string(1, letter) + " octets");
  }
  return text;
}

/// Outcomes by case: what is other than `usual`, line by line. One that was there before is only named.
class Runs {
 public:
  explicit Runs(std::string usual = {}) : usual_(std::move(usual)) {}
  void add(const std::string& name, const std::string& outcome) {
    if (first_.empty() || outcome != outcome_) {
      end();
      first_ = name;
      outcome_ = outcome;
    }
    last_ = name;
  }
  std::string text() {
    end();
    return std::exchange(text_, {});
  }

 private:
  static std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      out.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return out;
  }
  std::string differences() const {
    std::vector<std::string> was = lines(usual_);
    std::string out;
    for (const std::string& line : lines(outcome_)) {
      const auto same = std::find(was.begin(), was.end(), line);
      if (same == was.end())
        out += line + "\n";
      else
        was.erase(same);
    }
    for (const std::string& line : was)
      if (line.starts_with("    ")) out += "    not: " + line.substr(4) + "\n";
    return out;
  }
  void end() {
    if (first_.empty()) return;
    text_ += first_ == last_ ? first_ : first_ + " to " + last_;
    const auto [before, added] = seen_.try_emplace(outcome_, first_);
    text_ += outcome_ == usual_ ? ": as usual\n" : added ? "\n" + differences() : ": as " + before->second + "\n";
    first_.clear();
  }
  std::string usual_, first_, last_, outcome_, text_;
  std::map<std::string, std::string> seen_;
};

/// All that a report says of a connection but its addresses and times, in few lines.
inline std::string brief(const ConnectionReport& c) {
  const auto counts = [](const DirectionCounts& d) {
    std::string out = fmt::format("{} FPDUs, {} messages, {} octets", d.fpdus, d.messages, d.octets);
    if (d.missing_octets > 0) out += fmt::format(", {} octets missing", d.missing_octets);
    if (d.retransmissions > 0) out += fmt::format(", {} repeated", d.retransmissions);
    if (d.out_of_order > 0) out += fmt::format(", {} out of order", d.out_of_order);
    return out;
  };
  const auto frame = [](const std::optional<StartupSeen>& s) {
    return s ? fmt::format("{}{}{}", s->frame, s->enhanced_cut ? ", enhanced data cut" : "",
                           s->private_data_whole ? "" : ", cut")
             : std::string("none");
  };
  const std::string result = c.judgement.why.find("not in the capture") != std::string::npos
                                 ? fmt::format("{}, {}", to_string(c.outcome), to_string(c.judgement.standing))
                                 : result_text(c);
  std::string out = fmt::format("  {}; revision {}{}{}{}; {}", result, c.revision, c.crc ? ", CRC" : "",
                                c.markers_to_responder ? ", markers to the responder" : "",
                                c.markers_to_initiator ? ", markers to the initiator" : "", rtr_text(c));
  if (c.depths_negotiated || c.ird != 0 || c.ord != 0)
    out += fmt::format("; IRD {} ORD {}{}", c.ird, c.ord, c.depths_negotiated ? "" : " not negotiated");
  out += fmt::format("; Request {}, Reply {}", frame(c.request), frame(c.reply));
  if (c.terminate) out += fmt::format("; Terminate {} by the {}", c.terminate->frame, to_string(c.terminate->from));
  out += fmt::format("\n  {} | {}\n", counts(c.from_initiator), counts(c.from_responder));
  for (const Finding& f : c.findings)
    out += fmt::format("    {} {}{}: {} [{}]\n", f.frame, to_string(f.severity),
                       f.side ? fmt::format(" of the {}", to_string(*f.side)) : "", f.text, f.rule);
  return out;
}
inline std::string brief(const FileReport& r) {
  std::string out;
  for (const ConnectionReport& c : r.connections) out += brief(c);
  return out.empty() ? "  no MPA connection\n" : out;
}
inline std::string brief(const Frames& frames) { return brief(analyse(frames)); }

}  // namespace parley::capture::test

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/report/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.hpp"
#include "capture/rules/mpa/startup_check.hpp"
#include "wire/rdmap.hpp"

namespace parley::capture {
namespace {

/// Appends to the text without temporary strings. A file may have tens of thousands of connections with seven lines
/// each; temporary strings for each word would take most of the time.
class Appender {
 public:
  explicit Appender(std::string& out) : out_(out) {}
  Appender& operator<<(std::string_view text) {
    out_ += text;
    return *this;
  }
  Appender& operator<<(std::uint64_t n) {
    std::array<char, 20> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), n).ptr;
    out_.append(digits.data(), end);
    return *this;
  }
  /// "1 FPDU", "2 FPDUs"
  Appender& plural(std::uint64_t n, std::string_view word) { return *this << n << " " << word << (n == 1 ? "" : "s"); }

 private:
  std::string& out_;
};

void agreed_text(const ConnectionReport& c, Appender out) {
  if (c.outcome == Outcome::not_captured) {
    out << "not captured; CRC " << (c.crc ? "on" : "not in use");
  } else if (const std::string_view why = c.not_agreed(); !why.empty()) {
    out << why;
    return;
  } else
    out << "revision " << c.revision << ", CRC " << (c.crc ? "on" : "off");
  if (c.markers_to_responder && c.markers_to_initiator)
    out << ", markers both ways";
  else if (c.markers_to_responder)
    out << ", markers to the responder";
  else if (c.markers_to_initiator)
    out << ", markers to the initiator";
  else
    out << ", no markers";
  if (c.outcome == Outcome::not_captured) return;
  out << ", " << rtr_text(c);
  if (c.depths_negotiated)
    out << ", IRD " << c.ird << " ORD " << c.ord << " (initiator)";
  else
    out << (c.request ? ", IRD/ORD not negotiated" : ", IRD/ORD not known");
}

void steps_text(const Steps& s, Appender out) {
  bool first = true;
  const auto add = [&](std::string_view name, const std::optional<Duration>& d) {
    if (!d) return;
    out << (first ? "" : ", ") << name << " " << duration_text(*d);
    first = false;
  };
  add("TCP", s.tcp);
  add("Request", s.request);
  add("Reply", s.reply);
  add("first FPDU", s.first_fpdu);
  if (first) out << "not seen";
}

void direction_text(const DirectionCounts& c, Appender out) {
  out.plural(c.fpdus, "FPDU") << ", ";
  out.plural(c.messages, "message");
  bool first = true;
  for (std::size_t op = 0; op < c.messages_by_opcode.size(); ++op) {
    if (c.messages_by_opcode[op] == 0) continue;
    out << (first ? " (" : ", ") << c.messages_by_opcode[op] << " " << to_string(static_cast<wire::RdmapOpcode>(op));
    first = false;
  }
  if (!first) out << ")";
  if (c.missing_octets > 0) {
    out << ", ";
    out.plural(c.missing_octets, "octet") << " missing";
  }
}

constexpr std::size_t words_at = 13;     // column where the words of a row begin
constexpr std::size_t piece = 64 << 10;  // the approximate size of write_text()'s pieces

/// Appends one connection's block.
void connection_text(const ConnectionReport& c, const TextOptions& o, std::string& out) {
  if (c.ib) {
    out += ib_text(c, o);
    return;
  }
  Appender words(out);
  std::size_t begun = 0;
  const auto begin = [&](std::string_view name) {
    out.append("  ").append(name).append(name.size() < 10 ? 11 - name.size() : 1, ' ');
    begun = out.size();
  };
  const auto end = [&] {
    // There are at least as many octets as columns, so short rows need no exact count.
    if (words_at + (out.size() - begun) > o.width) {
      const std::string wrapped = wrap(std::string_view(out).substr(begun), o.width, words_at);
      out.replace(begun, std::string::npos, wrapped);
    }
    out += '\n';
  };
  words << c.initiator.to_string() << " -> " << c.responder.to_string() << "  " << result_text(c) << "\n";
  for (const auto& [name, frame] : {std::pair{"request", &c.request}, std::pair{"reply", &c.reply}}) {
    if (!*frame) continue;
    begin(name);
    words << "frame " << (*frame)->frame << ": " << describe_startup(**frame);
    end();
  }
  begin("agreed"), agreed_text(c, words), end();
  begin("steps"), steps_text(c.steps, words), end();
  if (c.from_initiator.fpdus + c.from_responder.fpdus > 0) {
    begin("initiator"), direction_text(c.from_initiator, words), end();
    begin("responder"), direction_text(c.from_responder, words), end();
  }
  begin("end"), words << c.end, end();
  for (const Finding& f : c.findings) {
    if (f.severity == Severity::note && !o.notes) continue;
    begin(to_string(f.severity)), words << f.line(), end();
  }
}

}  // namespace

std::string rtr_text(const ConnectionReport& c) {
  if (c.rtr != mpa::Rtr::none) return fmt::format("RTR {}", mpa::to_string(c.rtr));
  std::string kinds;
  for (const auto kind : {mpa::Rtr::frame, mpa::Rtr::send, mpa::Rtr::write, mpa::Rtr::read})
    if (c.rtr_agreed == kind || c.rtr_common.has(kind))
      kinds += fmt::format("{}{}", kinds.empty() ? "" : " or ", mpa::to_string(kind));
  if (!kinds.empty()) return fmt::format("RTR {} agreed, not seen", kinds);
  return c.peer_to_peer ? "no RTR in common" : "no RTR";
}

std::string result_text(const ConnectionReport& c) {
  const std::string standing = standing_text(c.judgement);
  if (c.to_group()) return "to a multicast group, " + standing;
  return c.outcome == Outcome::failed ? standing : fmt::format("{}, {}", to_string(c.outcome), standing);
}

std::string standing_text(const Judgement& j) {
  return fmt::format("{}{}{}", to_string(j.standing), j.why.empty() ? "" : ": ", j.why);
}

std::string to_text(const ConnectionReport& c, const TextOptions& o) {
  std::string out;
  connection_text(c, o, out);
  return out;
}

std::string summary_text(std::string_view file, const FileReport& r) {
  std::string out;
  Appender words(out);
  for (const auto& n : r.notes) words << "note: " << n << "\n";
  if (!r.ignored.empty()) words << ignored_text(r.ignored) << "\n";
  words << file << ": " << standing_text(r.judgement);
  if (r.all_judged() == 0) {  // the standing says so, and lists the contents
    words << "\n";
    return out;
  }
  words << "; ";
  words.plural(r.packets, "packet") << ", ";
  words.plural(r.tcp_connections, "TCP connection") << ", ";
  // RFC 5044 §7.1.2: after a reject, one TCP connection may hold another.
  const std::uint64_t roce = r.ib_connections(), mpa = r.all_connections() - roce;
  if (mpa > r.tcp_connections)
    words.plural(mpa, "MPA connection");
  else
    words << mpa << " of them MPA";
  if (roce > 0) {
    words << ", ";
    words.plural(roce, "RoCE connection");
  }
  if (const std::uint64_t n = r.all_negotiations(); n > 0) {
    words << ", ";
    words.plural(n, "QP negotiation");
  }
  words << ": " << r.count(Standing::passed) << " passed, " << r.count(Standing::partial) << " partial, "
        << r.count(Standing::failed) << " failed; ";
  words.plural(r.count(Severity::error), "error") << ", ";
  words.plural(r.count(Severity::warning), "warning") << ", ";
  words.plural(r.count(Severity::note), "note") << "\n";
  return out;
}

void write_text(std::string_view file, const FileReport& r, const TextOptions& o,
                const std::function<void(std::string_view)>& write) {
  std::string out;
  const std::uint64_t connections = r.all_connections(), negotiations = r.all_negotiations();
  if (connections + negotiations > 0)
    Appender(out) << file << ": " << (connections > 0 ? r.connections_text() : "")
                  << (connections > 0 && negotiations > 0 ? ", " : "")
                  << (negotiations > 0 ? counted(negotiations, "QP negotiation") : "") << "\n\n";
  for (const auto& c : r.connections) {
    connection_text(c, o, out);
    out += '\n';
    if (out.size() < piece) continue;
    write(out);
    out.clear();
  }
  for (const auto& n : r.negotiations) {
    out += to_text(n, o) + '\n';
    if (out.size() < piece) continue;
    write(out);
    out.clear();
  }
  write(out + summary_text(file, r));
}

std::string to_text(std::string_view file, const FileReport& r, const TextOptions& o) {
  std::string out;
  write_text(file, r, o, [&out](std::string_view part) { out += part; });
  return out;
}

}  // namespace parley::capture

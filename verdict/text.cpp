// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "verdict/text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "verdict/startup_check.hpp"
#include "wire/rdmap.hpp"

namespace parley::verdict {
namespace {

std::string plural(std::uint64_t n, std::string_view word) {
  return fmt::format("{} {}{}", n, word, n == 1 ? "" : "s");
}

std::string agreed_text(const ConnectionReport& c) {
  std::string out = fmt::format("revision {}, CRC {}", c.revision, c.crc ? "on" : "off");
  if (c.markers_to_responder && c.markers_to_initiator)
    out += ", markers both ways";
  else if (c.markers_to_responder)
    out += ", markers to the responder";
  else if (c.markers_to_initiator)
    out += ", markers to the initiator";
  else
    out += ", no markers";
  if (c.rtr != mpa::Rtr::none)
    out += fmt::format(", RTR {}", mpa::to_string(c.rtr));
  else if (c.rtr_agreed != mpa::Rtr::none)
    out += fmt::format(", RTR {} agreed, not seen", mpa::to_string(c.rtr_agreed));
  else
    out += c.peer_to_peer ? ", RTR agreed, not seen" : ", no RTR";
  if (c.depths_negotiated)
    out += fmt::format(", IRD {} ORD {} (initiator)", c.ird, c.ord);
  else
    out += ", IRD/ORD not negotiated";
  return out;
}

std::string steps_text(const Steps& s) {
  std::string out;
  const auto add = [&](std::string_view name, const std::optional<Duration>& d) {
    if (d) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, duration_text(*d));
  };
  add("TCP", s.tcp);
  add("Request", s.request);
  add("Reply", s.reply);
  add("first FPDU", s.first_fpdu);
  return out.empty() ? "not seen" : out;
}

std::string direction_text(const DirectionCounts& c) {
  std::string out = fmt::format("{}, {}", plural(c.fpdus, "FPDU"), plural(c.messages, "message"));
  std::string kinds;
  for (std::size_t op = 0; op < c.messages_by_opcode.size(); ++op)
    if (c.messages_by_opcode[op] > 0)
      kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", c.messages_by_opcode[op],
                           to_string(static_cast<wire::RdmapOpcode>(op)));
  if (!kinds.empty()) out += fmt::format(" ({})", kinds);
  if (c.missing_octets > 0) out += fmt::format(", {} octets missing", c.missing_octets);
  return out;
}

}  // namespace

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string wrap(std::string_view text, std::size_t width, std::size_t indent) {
  std::string out;
  std::size_t at = indent;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    const std::size_t n = columns(word);
    if (at > indent && at + 1 + n > width) {
      out += '\n';
      out.append(indent, ' ');
      at = indent;
    } else if (at > indent) {
      out += ' ';
      ++at;
    }
    out += word;
    at += n;
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
  }
  return out;
}

std::string duration_text(Duration d) {
  const auto ns = static_cast<double>(d.count());
  const double size = ns < 0 ? -ns : ns;
  if (size >= 1e9) return fmt::format("{:.2f} s", ns / 1e9);
  if (size >= 1e6) return fmt::format("{:.1f} ms", ns / 1e6);
  if (size >= 1e3) return fmt::format("{:.0f} µs", ns / 1e3);
  return fmt::format("{} ns", d.count());
}

std::string to_text(const ConnectionReport& c, const TextOptions& o) {
  std::string out =
      fmt::format("{} -> {}  {}\n", c.initiator.to_string(), c.responder.to_string(), to_string(c.outcome));
  const auto row = [&](std::string_view name, const std::string& text) {
    // By hand: a file may have tens of thousands of connections, each with seven of these.
    out.append("  ").append(name).append(name.size() < 10 ? 11 - name.size() : 1, ' ');
    out.append(wrap(text, o.width, 13)) += '\n';
  };
  if (c.request) row("request", fmt::format("frame {}: {}", c.request->frame, describe_startup(*c.request)));
  if (c.reply) row("reply", fmt::format("frame {}: {}", c.reply->frame, describe_startup(*c.reply)));
  row("agreed", agreed_text(c));
  row("steps", steps_text(c.steps));
  if (c.from_initiator.fpdus + c.from_responder.fpdus > 0) {
    row("initiator", direction_text(c.from_initiator));
    row("responder", direction_text(c.from_responder));
  }
  row("end", c.end);
  for (const Finding& f : c.findings) {
    if (f.severity == Severity::note && !o.notes) continue;
    const std::string where = f.frame == 0 ? "" : fmt::format("frame {}: ", f.frame);
    const std::string rule = f.rule.empty() ? "" : fmt::format(" [{}]", f.rule);
    row(to_string(f.severity), where + f.text + rule);
  }
  return out;
}

std::string to_text(std::string_view file, const FileReport& r, const TextOptions& o) {
  std::string out;
  for (const auto& c : r.connections) out += to_text(c, o) + "\n";
  for (const auto& n : r.notes) out += fmt::format("note: {}\n", n);
  out += fmt::format("{}: {}, {}, {} of them MPA; {}, {}, {}\n", file, plural(r.packets, "packet"),
                     plural(r.tcp_connections, "TCP connection"), r.connections.size() + r.unlisted.connections,
                     plural(r.count(Severity::error), "error"), plural(r.count(Severity::warning), "warning"),
                     plural(r.count(Severity::note), "note"));
  return out;
}

std::string repeat(std::string_view glyph, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += glyph;
  return out;
}

std::string clip(const std::string& text, std::size_t n) {
  if (columns(text) <= n) return text;
  std::string out;
  std::size_t at = 0;
  for (char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80 && ++at + 3 > n) break;
    out += c;
  }
  return out + std::string(std::min<std::size_t>(n, 3), '.');
}

}  // namespace parley::verdict

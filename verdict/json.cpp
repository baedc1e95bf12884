// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "verdict/json.hpp"

#include <fmt/format.h>

#include <vector>

namespace parley::verdict {
namespace {

/// The length of the UTF-8 sequence at the head of `text`, 0 if there is none.
std::size_t utf8_length(std::string_view text) {
  const auto octet = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto tail = [&](std::size_t i) { return (octet(i) & 0xC0u) == 0x80u; };
  const unsigned c = octet(0);
  if (c < 0x80) return 1;
  if (c >= 0xC2 && c < 0xE0 && tail(1)) return 2;
  if (c >= 0xE0 && c < 0xF0 && tail(1) && tail(2) && !(c == 0xE0 && octet(1) < 0xA0) &&
      !(c == 0xED && octet(1) >= 0xA0))
    return 3;
  if (c >= 0xF0 && c < 0xF5 && tail(1) && tail(2) && tail(3) && !(c == 0xF0 && octet(1) < 0x90) &&
      !(c == 0xF4 && octet(1) >= 0x90))
    return 4;
  return 0;
}

/// Writes JSON as it is told; keeps track of commas and indentation only.
class JsonOut {
 public:
  explicit JsonOut(int indent) : indent_(indent) {}
  JsonOut& open(char bracket) {
    value_begins();
    out_ += bracket;
    first_.push_back(true);
    return *this;
  }
  JsonOut& close(char bracket) {
    const bool empty = first_.back();
    first_.pop_back();
    if (!empty) line();
    out_ += bracket;
    return *this;
  }
  JsonOut& key(std::string_view name) {
    value_begins();
    quote(name);
    out_ += indent_ > 0 ? ": " : ":";
    after_key_ = true;
    return *this;
  }
  JsonOut& text(std::string_view v) {
    value_begins();
    quote(v);
    return *this;
  }
  JsonOut& flag(bool v) { return raw(v ? "true" : "false"); }
  template <class N>
  JsonOut& number(N v) {
    return raw(fmt::format("{}", v));
  }
  JsonOut& raw(std::string_view v) {
    value_begins();
    out_ += v;
    return *this;
  }
  std::string take() { return std::move(out_); }

 private:
  void value_begins() {
    if (after_key_) {
      after_key_ = false;
      return;
    }
    if (first_.empty()) return;
    if (!first_.back()) out_ += ',';
    first_.back() = false;
    line();
  }
  void line() {
    if (indent_ == 0) return;
    out_ += '\n';
    out_.append(first_.size() * static_cast<std::size_t>(indent_), ' ');
  }
  void quote(std::string_view v) {
    out_ += '"';
    while (!v.empty()) {
      const std::size_t n = utf8_length(v);
      const char c = v.front();
      if (n == 0)
        out_ += "\xEF\xBF\xBD";
      else if (c == '"' || c == '\\')
        (out_ += '\\') += c;
      else if (static_cast<unsigned char>(c) < 0x20)
        out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      else
        out_ += v.substr(0, n);
      v.remove_prefix(n == 0 ? 1 : n);
    }
    out_ += '"';
  }

  int indent_;
  std::string out_;
  std::vector<bool> first_;
  bool after_key_ = false;
};

void milliseconds(JsonOut& j, std::string_view key, const std::optional<Duration>& d) {
  j.key(key);
  if (!d)
    j.raw("null");
  else
    j.raw(fmt::format("{:.6f}", static_cast<double>(d->count()) / 1e6));
}

std::string hex(ConstBytes in) {
  std::string out;
  for (std::uint8_t octet : in) out += fmt::format("{:02x}", octet);
  return out;
}

void startup(JsonOut& j, std::string_view key, const std::optional<StartupSeen>& s) {
  j.key(key);
  if (!s) {
    j.raw("null");
    return;
  }
  j.open('{').key("frame").number(s->frame).key("revision").number(s->revision);
  j.key("flags").text(fmt::format("{:02x}", s->flags)).key("pd_length").number(s->pd_length);
  if (s->enhanced) {
    const auto& e = *s->enhanced;
    j.key("a").flag(e.a).key("b").flag(e.b).key("c").flag(e.c).key("d").flag(e.d);
    j.key("ird").number(e.ird).key("ord").number(e.ord);
  }
  j.key("private_data").text(hex(s->private_data)).close('}');
}

void standing(JsonOut& j, const Judgement& judged) {
  j.key("standing").text(to_string(judged.standing)).key("why").text(judged.why);
}

void direction(JsonOut& j, std::string_view key, const DirectionCounts& c) {
  j.key(key).open('{').key("octets").number(c.octets).key("fpdus").number(c.fpdus).key("messages").number(c.messages);
  j.key("retransmissions").number(c.retransmissions).key("out_of_order").number(c.out_of_order);
  j.key("missing_octets").number(c.missing_octets).close('}');
}

void connection(JsonOut& j, const ConnectionReport& c) {
  j.open('{').key("protocol").text("mpa");
  j.key("initiator").text(c.initiator.to_string()).key("responder").text(c.responder.to_string());
  if (c.outcome == Outcome::not_captured)
    j.key("revision").raw("null");
  else
    j.key("revision").number(c.revision);
  j.key("crc").flag(c.crc);
  j.key("markers").open('{').key("to_responder").flag(c.markers_to_responder);
  j.key("to_initiator").flag(c.markers_to_initiator).close('}');
  j.key("rtr").text(mpa::to_string(c.rtr)).key("rtr_agreed").text(mpa::to_string(c.rtr_agreed));
  j.key("ird").number(c.ird).key("ord").number(c.ord).key("depths_negotiated").flag(c.depths_negotiated);
  j.key("agreed").flag(c.not_agreed().empty());
  j.key("outcome").text(to_string(c.outcome)).key("end").text(c.end);
  standing(j, c.judgement);
  j.key("first_frame").number(c.first_frame).key("last_frame").number(c.last_frame);
  startup(j, "request", c.request);
  startup(j, "reply", c.reply);
  j.key("steps_ms").open('{');
  milliseconds(j, "tcp", c.steps.tcp);
  milliseconds(j, "request", c.steps.request);
  milliseconds(j, "reply", c.steps.reply);
  milliseconds(j, "first_fpdu", c.steps.first_fpdu);
  j.close('}');
  direction(j, "from_initiator", c.from_initiator);
  direction(j, "from_responder", c.from_responder);
  j.key("findings").open('[');
  for (const Finding& f : c.findings) {
    j.open('{').key("frame").number(f.frame).key("severity").text(to_string(f.severity)).key("side");
    if (f.side)
      j.text(to_string(*f.side));
    else
      j.raw("null");
    j.key("rule").text(f.rule).key("text").text(f.text).close('}');
  }
  j.close(']').close('}');
}

}  // namespace

std::string to_json(std::string_view file, const FileReport& r, int indent) {
  JsonOut j(indent);
  j.open('{').key("file").text(file).key("packets").number(r.packets).key("tcp_connections").number(r.tcp_connections);
  j.key("connections").open('[');
  for (const auto& c : r.connections) connection(j, c);
  j.close(']').key("errors").number(r.count(Severity::error)).key("warnings").number(r.count(Severity::warning));
  j.key("notes").open('[');
  for (const auto& n : r.notes) j.text(n);
  j.close(']');
  standing(j, r.judgement);
  for (const Standing s : {Standing::passed, Standing::partial, Standing::failed})
    j.key(to_string(s)).number(r.count(s));
  j.key("holds").open('{').key("tcp").number(r.tcp_packets).key("rocev2").number(r.other.rocev2);
  j.key("rocev1").number(r.other.rocev1).key("other_udp").number(r.other.udp).close('}');
  return j.close('}').take();
}

std::string to_json(const ConnectionReport& c) {
  JsonOut j(0);
  connection(j, c);
  return j.take();
}

std::string error_json(std::string_view file, std::string_view error) {
  JsonOut j(0);
  return j.open('{')
      .key("file")
      .text(file)
      .key("connections")
      .open('[')
      .close(']')
      .key("error")
      .text(error)
      .key("standing")
      .text(to_string(Standing::failed))
      .close('}')
      .take();
}

}  // namespace parley::verdict

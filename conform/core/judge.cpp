// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "conform/core/judge.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_io.hpp"
#include "base/text.hpp"

namespace parley::conform {
namespace {

/// The control word of a Terminate as it was on the wire, before any interpretation: RFC 5040 §4.8.
struct RawControl {
  TermCode code;
  std::uint8_t octet0 = 0, bits = 0;
};

std::optional<RawControl> raw_control(const Received& received) {
  if (!received.is(wire::RdmapOpcode::terminate) || received.payload().size() < PARLEY_RDMAP_TERM_CTRL_LEN)
    return std::nullopt;
  Reader in(received.payload());
  RawControl raw;
  raw.octet0 = in.u8();
  raw.code = {static_cast<std::uint8_t>(raw.octet0 >> 4), static_cast<std::uint8_t>(raw.octet0 & 0xF), in.u8()};
  raw.bits = in.u8();
  return raw;
}

TermCode exchanged(TermCode c) { return {c.etype, c.layer, c.code}; }

bool listed(const TermCodes& codes, const TermCode& code) {
  if (codes.size > 0) return codes.has(code);
  return code.layer < PARLEY_RDMAP_LAYER_LLP && !wire::terminate_text(code.layer, code.etype, code.code).empty();
}

std::string code_text(const TermCode& c) {
  const auto text = wire::terminate_text(c.layer, c.etype, c.code);
  return fmt::format("{:x}{:x} {:02x} ({})", c.layer, c.etype, c.code,
                     text.empty() ? std::string_view("no registered meaning") : text);
}

std::string_view part(bool here) { return here ? "set" : "not set"; }

/// Names what is wrong with the parts after the code; empty: nothing.
std::string header_fault(const Received& received, const RawControl& raw, const TerminateDue& due) {
  const bool m = (raw.bits & PARLEY_RDMAP_TERM_M) != 0, d = (raw.bits & PARLEY_RDMAP_TERM_D) != 0,
             r = (raw.bits & PARLEY_RDMAP_TERM_R) != 0;
  if ((raw.bits & 0x1F) != 0 && !m && !d && !r)
    return fmt::format("M, D and R are in the low bits of octet 2 ({:02x}), where they are reserved bits", raw.bits);
  if (due.parts_judged && due.header && !(m && d))
    return fmt::format("M is {} and D is {}; the DDP header and the length of the segment are expected", part(m),
                       part(d));
  if (due.parts_judged && due.read_request && !r) return "R is not set; the Read Request's header is expected";
  const auto t = received.terminate();
  if (!t || due.segment.empty()) return {};
  if (d) {
    const std::size_t n = std::min(t->ddp_header.size(), due.segment.size());
    if (n == 0 ||
        !std::equal(t->ddp_header.begin(), t->ddp_header.begin() + static_cast<std::ptrdiff_t>(n), due.segment.begin()))
      return "the DDP header in it is not the one of the segment that was sent";
  }
  if (m && t->ddp_segment_length != due.segment.size())
    return fmt::format("its DDP Segment Length is {}, the segment had {} octets", t->ddp_segment_length,
                       due.segment.size());
  if (r && due.read_request && due.segment.size() == PARLEY_DDP_UNTAGGED_LEN + PARLEY_RDMAP_READ_REQUEST_LEN) {
    const ConstBytes request = ConstBytes(due.segment).subspan(PARLEY_DDP_UNTAGGED_LEN);
    if (!std::equal(t->read_request.begin(), t->read_request.end(), request.begin(), request.end()))
      return "the Read Request's header in it is not the one that was sent";
  }
  return {};
}

std::string_view missing_parts(const RawControl& raw, const TerminateDue& due) {
  return due.header && (raw.bits & PARLEY_RDMAP_TERM_D) == 0 ? "; no DDP header with it, where one should be" : "";
}

std::string swapped_parts(const Received& received, const RawControl& raw, const TerminateDue& due) {
  std::string more;
  const auto t = received.terminate();
  if (due.header && (raw.bits & 0xE7) == 0) more += "; no DDP header with it, where one is expected";
  if (t && t->m && !due.segment.empty() && t->ddp_segment_length != due.segment.size())
    more += fmt::format("; its DDP Segment Length is {}, the segment had {} octets", t->ddp_segment_length,
                        due.segment.size());
  if (t && t->d) {
    const std::size_t n = std::min(t->ddp_header.size(), due.segment.size());
    if (!std::equal(t->ddp_header.begin(), t->ddp_header.begin() + static_cast<std::ptrdiff_t>(n), due.segment.begin()))
      more += "; the DDP header in it is not the one of the segment that was sent";
  }
  return more;
}

}  // namespace

bool TermCodes::has(const TermCode& code) const {
  return std::find(list.begin(), list.begin() + size, code) != list.begin() + size;
}

std::string ending_text(const Received& h) {
  switch (h.kind) {
    case Received::Kind::startup: return frame_text(h);
    case Received::Kind::fpdu:
      if (h.terminate()) return h.text();
      if (h.is(wire::RdmapOpcode::terminate)) return "a Terminate shorter than its control word";
      return h.ddp ? fmt::format("{} of {} octets", wire::to_string(h.ddp->opcode), h.payload().size())
                   : std::string("an FPDU shorter than a DDP header");
    case Received::Kind::bad: return "octets that are not a frame (" + h.why + ")";
    default: return std::string(to_string(h.kind));
  }
}

bool means(const Received& received, const TermCode& code) {
  const auto raw = raw_control(received);
  if (!raw) return false;
  // Chelsio and Intel send LLP errors with error type 3.
  const bool llp3 = code.layer == PARLEY_RDMAP_LAYER_LLP && raw->code == TermCode{code.layer, 3, code.code};
  return llp3 || raw->code == code || raw->code == exchanged(code);
}

Observation judge_terminate(const Received& received, const TerminateDue& due) {
  const auto raw = raw_control(received);
  const std::string expected = due.codes.size > 0 ? code_text(due.codes.list[0]) : "a Terminate";
  if (!raw) {
    if (received.is(wire::RdmapOpcode::terminate)) return failed("a Terminate shorter than its control word");
    Observation f = failed(fmt::format("{}, no Terminate; {} is expected", ending_text(received), expected));
    f.silent = received.kind == Received::Kind::silence;
    return f;
  }
  const std::string octets = fmt::format("Terminate {:02x} {:02x} {:02x}", raw->octet0, raw->code.code, raw->bits);
  const bool low_bits = (raw->bits & 0xE0) == 0 && (raw->bits & 0x07) != 0;
  const bool right = listed(due.codes, raw->code), right_swapped = listed(due.codes, exchanged(raw->code));
  // If the code is right as sent but the bits of octet 2 are misplaced, the order is still wrong.
  if (right && !(low_bits && right_swapped && raw->code.layer != raw->code.etype)) {
    const std::string fault = header_fault(received, *raw, due);
    const std::string words = fmt::format("{}: {}", octets, code_text(raw->code));
    if (fault.empty()) return pass(words + std::string(missing_parts(*raw, due)));
    return failed(low_bits ? words + "; " + fault + swapped_parts(received, *raw, due) : words + "; " + fault);
  }
  if (right_swapped)
    return failed(fmt::format("{}: the right error, {}, with the nibbles of octet 0 exchanged: as sent it reads {}{}",
                              octets, code_text(exchanged(raw->code)), code_text(raw->code),
                              swapped_parts(received, *raw, due)));
  if (due.unclear.has(raw->code) || due.unclear.has(exchanged(raw->code)))
    return unclear(fmt::format("{}: {}; {}", octets, code_text(raw->code), due.unclear_why));
  const bool swapped = low_bits || wire::terminate_text(raw->code.layer, raw->code.etype, raw->code.code).empty();
  return failed(fmt::format(
      "{}: {}{}; {} is expected", octets, code_text(raw->code),
      swapped ? ", or with the nibbles of octet 0 exchanged " + code_text(exchanged(raw->code)) : std::string(),
      expected));
}

Task<Observation> provoke_on(Tester& tester, Conn& conn, Provocation p) {
  if (p.one_write) {
    Bytes all;
    for (const Provocation::Step& step : p.steps) {
      const Bytes octets = conn.out().write(step.ulpdu, step.faults);
      all.insert(all.end(), octets.begin(), octets.end());
    }
    conn.send(fmt::format("{} FPDUs in one write", p.steps.size()), all);
  } else {
    for (const Provocation::Step& step : p.steps) conn.send_fpdu(step.ulpdu, step.faults);
  }
  const Received received = co_await conn.receive_terminate(tester.settings().reply);
  if (p.due.header && p.due.segment.empty() && !p.steps.empty()) p.due.segment = p.steps.back().ulpdu;
  const Observation finding = judge_terminate(received, p.due);
  co_return finding;
}

Task<Observation> provoke(Tester& tester, Provocation p) {
  Conn* conn = co_await tester.set_up(p.set_up);
  if (conn == nullptr) co_return tester.trouble();
  const Observation finding = co_await provoke_on(tester, *conn, std::move(p));
  co_return finding;
}

Bytes wrong_version_segment(std::uint32_t msn) {
  wire::DdpHeader header = tester::send_header(msn);
  header.rdmap_version = 0;
  return tester::segment(header, Bytes(16, 0));
}

Task<std::optional<std::string>> still_understands(Tester& tester, Conn& conn) {
  conn.send_fpdu(wrong_version_segment(conn.next_send()));
  const Received received = co_await conn.receive_terminate(tester.settings().reply);
  if (means(received, wrong_version)) co_return std::nullopt;
  co_return ending_text(received);
}

Task<std::optional<std::string>> accepts_rtr_frame(Tester& tester, Conn& conn, std::string_view key) {
  co_await tester.peer().sleep(tester.settings().first_fpdu);
  conn.send_startup({.key = key});
  // A peer that reads the frame as an FPDU finds a wrong version in it. Its Terminate must not pass as the answer to
  // the segment of still_understands().
  const Received after = co_await conn.receive_terminate(tester.settings().quiet);
  if (after.kind != Received::Kind::silence) co_return ending_text(after);
  auto wrong = co_await still_understands(tester, conn);
  co_return wrong;
}

std::string sink_fault(const Received& response, std::uint32_t stag, std::uint64_t to) {
  std::string out;
  const auto add = [&out](bool wrong, const std::string& what) {
    if (wrong) out += (out.empty() ? "" : ", ") + what;
  };
  const std::size_t length = response.payload().size();
  add(length != 0, fmt::format("has {} octets where none were asked for", length));
  add(response.ddp->stag != stag, "does not copy the sink STag");
  add(response.ddp->to != to, "does not copy the sink TO");
  return out.empty() ? out : "the Read Response " + out;
}

Task<std::optional<Region>> rping_advertised(Tester& tester, Conn& conn) {
  const auto advertises = [](const Received& h) { return h.is(wire::RdmapOpcode::send) && h.payload().size() == 16; };
  Received ad = conn.first;
  if (!advertises(ad)) ad = co_await conn.receive_fpdu(tester.settings().reply);
  if (!advertises(ad)) co_return std::nullopt;
  co_return rping_region(ad.payload());
}

Bytes rping_advertisement() {
  // be64 address, be32 STag, be32 length: what rping's client sends first.
  Bytes out(16, 0);
  out[6] = 0x10;
  out[11] = 0x77;
  out[15] = 64;
  return out;
}
Region rping_region(ConstBytes advertisement) {
  Reader in(advertisement);
  Region region;
  region.to = in.be64();
  region.stag = in.be32();
  region.length = in.be32();
  return region;
}

Task<std::optional<Region>> region_of(Tester& b, Conn& conn) {
  if (b.settings().ulp != Ulp::rping) co_return std::nullopt;
  if (b.initiator()) {
    auto advertised = co_await rping_advertised(b, conn);
    co_return advertised;
  }
  conn.send_fpdu(tester::segment(tester::send_header(conn.next_send()), rping_advertisement()));
  for (unsigned i = 0; i < 4; ++i) {
    const Received asked = co_await conn.receive_fpdu(b.settings().reply);
    if (asked.kind != Received::Kind::fpdu) co_return std::nullopt;
    if (!asked.is(wire::RdmapOpcode::read_request)) continue;
    const auto read = wire::ReadRequest::parse(asked.payload());
    if (!read || read->size == 0) continue;
    co_return Region{read->sink_stag, read->sink_to, read->size};
  }
  co_return std::nullopt;
}

Observation judge_closed(const Received& received, Duration within) {
  if (received.closed() && received.octets.empty()) return pass(ending_text(received));
  Observation f = failed(received.kind == Received::Kind::silence
                             ? fmt::format("open and silent for {}", limit_text(within))
                             : ending_text(received) + " instead of the end of the connection");
  f.silent = received.kind == Received::Kind::silence;
  return f;
}

}  // namespace parley::conform

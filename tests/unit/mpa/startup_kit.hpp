// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Shared by the startup tests: frames of any shape, machines in any state, and events as one line of text each.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/bytes_io.hpp"
#include "mpa/startup.hpp"

namespace parley::mpa::kit {

using Kind = StartupEvent::Kind;
using Close = StartupEvent::Close;
using State = StartupState;

inline const Instant t0 = Instant(1000s);

inline Bytes hex(std::string_view text) {
  Bytes out;
  int high = -1;
  for (char c : text) {
    if (c == ' ') continue;
    const int v = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    if (high < 0) {
      high = v;
    } else {
      out.push_back(static_cast<std::uint8_t>(high << 4 | v));
      high = -1;
    }
  }
  return out;
}

inline std::string to_hex(ConstBytes octets) {
  std::string out;
  for (auto o : octets) out += fmt::format("{:02x}", o);
  return out;
}

inline Bytes text_bytes(std::string_view text) { return {text.begin(), text.end()}; }

/// A frame with any field wrong on purpose: PD_Length may lie.
inline Bytes raw_frame(std::string_view key, int flags, int revision, int pd_length, const Bytes& data = {}) {
  Bytes out(PARLEY_MPA_HEADER_LEN);
  Writer w(out);
  for (char c : key) w.u8(static_cast<std::uint8_t>(c));
  w.u8(static_cast<std::uint8_t>(flags));
  w.u8(static_cast<std::uint8_t>(revision));
  w.be16(static_cast<std::uint16_t>(pd_length));
  out.insert(out.end(), data.begin(), data.end());
  return out;
}
inline Bytes req(int flags, int revision, const Bytes& data = {}) {
  return raw_frame(PARLEY_MPA_KEY_REQ, flags, revision, static_cast<int>(data.size()), data);
}
inline Bytes rep(int flags, int revision, const Bytes& data = {}) {
  return raw_frame(PARLEY_MPA_KEY_REP, flags, revision, static_cast<int>(data.size()), data);
}
inline Bytes rtr_frame(RtrSpelling spelling = RtrSpelling::text, int pd_length = 0) {
  return raw_frame(spelling == RtrSpelling::text ? PARLEY_MPA_KEY_RTR : PARLEY_MPA_KEY_RTR_HEX, 0, 1, pd_length);
}
inline Bytes join(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline Startup initiator(const StartupOptions& o = {}, const Bytes& data = {}) {
  auto m = Startup::create(Role::initiator, o, data, t0);
  EXPECT_TRUE(m) << (m ? "" : m.error().message());
  return std::move(*m);
}
inline Startup responder(const StartupOptions& o = {}) {
  auto m = Startup::create(Role::responder, o, {}, t0);
  EXPECT_TRUE(m) << (m ? "" : m.error().message());
  return std::move(*m);
}
inline StartupOptions rev1() {
  StartupOptions o;
  o.revision = 1;
  return o;
}

inline std::vector<StartupEvent> events(Startup& m) {
  std::vector<StartupEvent> out;
  while (auto e = m.poll_event()) out.push_back(std::move(*e));
  return out;
}
/// The only event; a test that expects one and gets none or two fails.
inline StartupEvent only_event(Startup& m) {
  auto all = events(m);
  EXPECT_EQ(all.size(), 1u);
  return all.empty() ? StartupEvent{} : all.back();
}

inline std::string_view to_string(Close c) {
  return c == Close::none ? "none" : c == Close::graceful ? "graceful" : "reset";
}

inline std::string brief(const Parameters& p) {
  return fmt::format(
      "rev={} crc={} markers={}/{} rtr={} p2p={} ird={} ord={} negotiated={} peer={}/{} flags={:02x} {} > {}",
      p.revision, p.crc, p.tx_markers, p.rx_markers, mpa::to_string(p.rtr), p.peer_to_peer, p.ird, p.ord,
      p.depths_negotiated, p.peer_ird, p.peer_ord, p.peer_flags, mpa::to_string(p.offered), mpa::to_string(p.answered));
}
inline std::string describe(const StartupEvent& e) {
  std::string out{mpa::to_string(e.kind)};
  if (e.terminate_code) out += fmt::format(" code {}", e.terminate_code);
  if (e.close != Close::none) out += fmt::format(" close={}", to_string(e.close));
  if (e.failure.code) out += fmt::format(" <{}> at {}", e.failure.to_string(), e.failure.offset);
  if (!e.private_data.empty()) out += " pd=" + to_hex(e.private_data);
  return out + " {" + brief(e.parameters) + "}";
}

inline ::testing::AssertionResult has_reason(const Parameters& p, std::string_view part) {
  for (const auto& r : p.reasons)
    if (r.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  auto no = ::testing::AssertionFailure() << "no reason says \"" << part << "\" among:";
  for (const auto& r : p.reasons) no << "\n  " << r;
  return no;
}

/// A responder that has got `request` and waits for its ULP; the request event is drained.
inline Startup asked(const Bytes& request, const StartupOptions& o = {}) {
  Startup m = responder(o);
  EXPECT_EQ(m.handle_bytes(t0, request), request.size());
  EXPECT_EQ(m.state(), State::ulp_decision);
  (void)events(m);
  return m;
}

struct Answer {
  Bytes octets;
  std::vector<StartupEvent> events;
  Parameters parameters;
  State state = State::failed;
  wire::MpaFrameView frame() const { return *wire::MpaFrameView::parse(octets); }
  wire::MpaEnhanced enhanced() const {
    auto e = wire::MpaEnhanced::parse(frame().private_data);
    EXPECT_TRUE(e) << "the Reply has no enhanced data";
    return e ? *e : wire::MpaEnhanced{};
  }
};
inline Answer collect(Startup& m) {
  Answer a;
  a.octets = m.poll_transmit();
  a.events = events(m);
  a.parameters = m.parameters();
  a.state = m.state();
  return a;
}
/// What a responder with these options answers when its ULP accepts.
inline Answer answer(const Bytes& request, const StartupOptions& o = {}, const Bytes& data = {}) {
  Startup m = asked(request, o);
  auto ok = m.accept(t0, o, data);
  EXPECT_TRUE(ok) << (ok ? "" : ok.error().message());
  return collect(m);
}
/// What an initiator with these options makes of a Reply.
inline Answer judge(const StartupOptions& o, const Bytes& reply) {
  Startup m = initiator(o);
  (void)m.poll_transmit();
  (void)m.handle_bytes(t0, reply);
  return collect(m);
}

/// Both machines over a perfect wire, the responder's ULP accepting; `form` is what the initiator's queue pair sends
/// first when no RTR was agreed on.
struct Pair {
  Startup i, r;
  std::vector<StartupEvent> i_events, r_events;
  Bytes octets;  // everything, in both directions
  Pair(const StartupOptions& io, const StartupOptions& ro) : i(initiator(io)), r(responder(ro)) {
    const auto drain = [this] {
      for (auto& e : events(i)) i_events.push_back(e);
      for (auto& e : events(r)) r_events.push_back(e);
    };
    const auto carry = [&](Startup& from, Startup& to) {
      const Bytes b = from.poll_transmit();
      octets = join(octets, b);
      (void)to.handle_bytes(t0, b);
      drain();
    };
    carry(i, r);
    if (r.state() == State::ulp_decision) {
      EXPECT_TRUE(r.accept(t0, ro, {}));
    }
    carry(r, i);
    carry(i, r);
    if (r.state() == State::wait_first_fpdu && i.state() == State::open)
      r.handle_first_fpdu(t0, i.parameters().rtr);
    else if (r.state() == State::wait_rtr_frame && i.state() == State::open && i.parameters().rtr != Rtr::frame) {
      const Bytes fpdu = hex("000e c140");
      EXPECT_EQ(r.handle_bytes(t0, fpdu), 0u);
      r.handle_first_fpdu(t0, i.parameters().rtr);
    }
    drain();
  }
};

}  // namespace parley::mpa::kit

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Data of Peers for a stream and for a dial. For peers.cpp and dials.cpp.
#pragma once
#include "base/escape.hpp"
#include "cm/failure_text.hpp"
#include "cm/neg/peers.hpp"
#include "cm/neg/traced.hpp"

namespace parley::neg {

inline constexpr cm::Step tcp_step{cm::Stage::transport, "tcp_connect", "open the TCP connection", "to"};

/// An open stream and its session.
struct Peers::Talk {
  Talk(StreamId id, StreamInfo of, Session what, Instant now)
      : stream(id), info(of), session(std::move(what)), since(now) {}
  StreamId stream;
  StreamInfo info;
  Session session;
  Instant since;
  Role role = Role::responder;
  DialId dial = 0;
  cm::Admission::Ticket ticket{};
  Bytes out;  // at most 3 stages * rounds_max * message_max; the peer must have sent as many Turns for that
  std::size_t out_at = 0;
  bool named = false;  // in ready_
  bool told = false;   // its end has been queued as an event
  bool peer_ended = false, gone = false, shut = false;
  Instant leave_at = never, deadline = never;
  std::unique_ptr<Traced> trace{};  // responder; null: no trace
};

struct Peers::Dialling {
  DialId id = 0;
  Dial dial{};
  Address at{};         // the current address
  StreamId stream = 0;  // 0: it waits, or its session runs
  std::uint32_t attempts = 0;
  Instant since{}, deadline = never;
  std::unique_ptr<Variant> variant{};  // for the next attempt
  Framing framing = Framing::parley;
  std::unique_ptr<Traced> trace{};  // null: no trace
};

}  // namespace parley::neg

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// States and failures in words.
#include <fmt/format.h>

#include "base/text.hpp"
#include "cm/failure_text.hpp"
#include "cm/ibcm/body.hpp"

namespace parley::cm::ibcm {
using namespace wire::ib;

std::string_view to_string(QpType type) {
  switch (type) {
    case QpType::rc: return "RC";
    case QpType::uc: return "UC";
    case QpType::xrc: return "XRC";
  }
  return "unknown";
}

std::string_view to_string(State state) {
  switch (state) {
#define PARLEY_X(name, text) \
  case State::name: return #name;
    PARLEY_IBCM_STATES(PARLEY_X)
#undef PARLEY_X
  }
  return "unknown";
}

std::string_view text_of(State state) {
  switch (state) {
#define PARLEY_X(name, text) \
  case State::name: return text;
    PARLEY_IBCM_STATES(PARLEY_X)
#undef PARLEY_X
  }
  return "unknown";
}

std::string_view to_string(AlternateState state) {
  switch (state) {
    case AlternateState::idle: return "idle";
    case AlternateState::lap_sent: return "lap_sent";
    case AlternateState::mra_lap_rcvd: return "mra_lap_rcvd";
    case AlternateState::lap_rcvd: return "lap_rcvd";
    case AlternateState::mra_lap_sent: return "mra_lap_sent";
  }
  return "unknown";
}

Step step_of(State state) {
  switch (state) {
    case State::queued: return {Stage::request, "queued", "wait for its turn to send the REQ", "to"};
    case State::req_sent: return {Stage::reply, "req_sent", "wait for the REP", "from"};
    case State::mra_req_rcvd: return {Stage::reply, "mra_req_rcvd", "wait for the REP", "from"};
    case State::rep_rcvd: return {Stage::ready, "rep_rcvd", "bring the queue pair up", "to"};
    case State::mra_rep_sent: return {Stage::ready, "mra_rep_sent", "bring the queue pair up", "to"};
    case State::req_rcvd: return {Stage::decision, "req_rcvd", "decide on the REQ", "from"};
    case State::mra_req_sent: return {Stage::decision, "mra_req_sent", "decide on the REQ", "from"};
    case State::rep_sent: return {Stage::ready, "rep_sent", "wait for the RTU", "from"};
    case State::mra_rep_rcvd: return {Stage::ready, "mra_rep_rcvd", "wait for the RTU", "from"};
    case State::established: return step::data;
    case State::dreq_sent: return {Stage::closing, "dreq_sent", "wait for the DREP", "from"};
    case State::dreq_rcvd: return {Stage::closing, "dreq_rcvd", "answer the DREQ", "of"};
    case State::sidr_req_sent: return {Stage::reply, "sidr_req_sent", "wait for the SIDR_REP", "from"};
    case State::sidr_req_rcvd: return {Stage::decision, "sidr_req_rcvd", "decide on the SIDR_REQ", "from"};
    case State::timewait:
    case State::closed: break;
  }
  return step::closing;
}

Failure broken(State state, Errc code, std::string received, std::string advice) {
  return plain_failure(step_of(state), code, {}, std::move(received), std::move(advice));
}

Failure unusable_qpn(State state, std::string_view message, std::uint32_t qpn) {
  return broken(state, Errc::malformed,
                fmt::format("a {} with queue pair number {:#08x}, which no connection can have", message, qpn),
                "report it to the maker of the peer's connection manager");
}

Failure nothing_came(const Connection& c, Instant now) {
  std::string_view awaited = "answer",
                   advice = "check that the peer is up, and that nothing on the way drops its packets";
  switch (c.unanswered_type) {
    case CmMessageType::req:
      awaited = "REP";
      advice = "check that the peer is up and has a CM, and that no firewall drops UDP port 4791";
      break;
    case CmMessageType::rep: awaited = "RTU"; break;
    case CmMessageType::dreq: awaited = "DREP"; break;
    case CmMessageType::lap:
      awaited = "APR";
      advice = "the peer may know nothing of alternate paths; Linux does not over RoCE";
      break;
    case CmMessageType::sidr_req: awaited = "SIDR_REP"; break;
    default: break;
  }
  std::string received = fmt::format("no {} to {} in {}", awaited, counted(c.sends, to_string(c.unanswered_type)),
                                     brief_duration_text(now - c.begun));
  if (c.waits != 0) received += fmt::format(", after the peer asked for time ({})", counted(c.waits, "MRA"));
  return broken(c.state, Errc::timed_out, std::move(received), std::string(advice));
}

Failure rejected_because(State state, const CmRej& m) {
  Errc code = Errc::rejected;
  std::string_view advice = "change what the reason names, and connect again";
  switch (m.reason) {
    case CmReject::invalid_service_id:
      code = Errc::refused;
      advice = "start the peer's listener, or check the service ID (the port)";
      break;
    case CmReject::stale_connection:
      advice = "connect again with another queue pair, or when the peer's timewait is over";
      break;
    case CmReject::consumer: advice = "ask the peer's program; its private data may say why"; break;
    case CmReject::timeout:
      code = Errc::timed_out;
      advice = "answer sooner, or ask the peer for time with an MRA";
      break;
    case CmReject::no_qp:
    case CmReject::no_eec:
    case CmReject::no_resources: advice = "connect again later"; break;
    case CmReject::invalid_comm_id: advice = "the peer no longer has this connection; set it up again"; break;
    case CmReject::port_and_cm_redirect:
    case CmReject::port_redirect: advice = "connect to the port in the additional information"; break;
    default: break;
  }
  return broken(
      state, code,
      fmt::format("REJ of {}: reason {}, {}", to_string(m.about), static_cast<unsigned>(m.reason), to_string(m.reason)),
      std::string(advice));
}

tl::unexpected<Error> too_long(std::size_t size, std::size_t room) {
  return fail(Errc::bad_private_data, "it has {a} octets; there is room for {b}", static_cast<std::int64_t>(size),
              static_cast<std::int64_t>(room));
}

}  // namespace parley::cm::ibcm

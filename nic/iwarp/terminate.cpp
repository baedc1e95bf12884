// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Terminate in both directions: RFC 5040 §4.8, §5.4, §7.1. Only the first error counts; after it nothing else is sent
// or delivered.
#include <fmt/format.h>

#include "nic/iwarp/qp.hpp"

namespace parley::nic::iwarp {
namespace {

constexpr std::size_t terminate_max =
    PARLEY_RDMAP_TERM_CTRL_LEN + 2 + PARLEY_DDP_UNTAGGED_LEN + PARLEY_RDMAP_READ_REQUEST_LEN;

std::string meaning(std::uint8_t layer, std::uint8_t etype, std::uint8_t code) {
  const std::string_view text = wire::terminate_text(layer, etype, code);
  return text.empty() ? fmt::format("unassigned code {:X}{:X} {:02X}", layer, etype, code) : std::string(text);
}

/// Octet 0 read with its nibbles swapped, if that is also a valid meaning.
std::string other_reading(const wire::Terminate& terminate) {
  const std::string_view other = wire::terminate_text(terminate.etype, terminate.layer, terminate.code);
  if (terminate.nibbles_swapped)
    return fmt::format(" (octet 0 in Linux siw's order; as sent it would be: {})",
                       meaning(terminate.etype, terminate.layer, terminate.code));
  if (terminate.m || terminate.d || other.empty() || terminate.layer == terminate.etype) return {};
  return fmt::format(" (from Linux siw it would be: {})", other);
}

}  // namespace

Qp::TermCode Qp::protection_code(MrFault fault) {
  switch (fault) {
    case MrFault::other_pd: return {0, 1, 0x03};
    case MrFault::wrap: return {0, 1, 0x04};
    case MrFault::bounds: return {0, 1, 0x01};
    case MrFault::access: return {0, 1, 0x02};
    default: return {0, 1, 0x00};
  }
}

void Qp::trace_terminate() const {
  trace::record(trace_, trace::Terminate{.sent = terminate_->sent,
                                         .layer = terminate_->layer,
                                         .etype = terminate_->etype,
                                         .code = terminate_->code,
                                         .meaning = terminate_->text});
}

void Qp::queue_terminate(TermCode code, const Segment* segment, ConstBytes read_request) {
  if (code.layer == PARLEY_RDMAP_LAYER_LLP) code.etype = terminate_llp_etype_;
  wire::Terminate terminate;
  terminate.nibbles_swapped = terminate_nibbles_swapped_;
  terminate.layer = code.layer;
  terminate.etype = code.etype;
  terminate.code = code.code;
  // RFC 5040 §4.8: the terminated headers are included, except for local catastrophic and LLP errors.
  if (segment && code.layer != PARLEY_RDMAP_LAYER_LLP && code.etype != 0) {
    terminate.m = terminate.d = true;
    terminate.ddp_segment_length = static_cast<std::uint16_t>(segment->ulpdu);
    terminate.ddp_header = segment->octets;
    terminate.r = !read_request.empty();
    terminate.read_request = read_request;
  }
  std::array<std::uint8_t, PARLEY_DDP_UNTAGGED_LEN + terminate_max> octets{};
  wire::DdpHeader header;
  header.opcode = wire::RdmapOpcode::terminate;
  header.qn = PARLEY_DDP_QN_TERMINATE;
  header.msn = 1;
  header.emit(octets);
  terminate.emit(MutBytes(octets).subspan(PARLEY_DDP_UNTAGGED_LEN));
  // FPDUs that TCP may have begun must be finished first. Their payload is copied, because the requests end now.
  output_.own_all();
  output_.add(ConstBytes(octets).first(PARLEY_DDP_UNTAGGED_LEN + terminate.size()), {}, 0);
  terminate_ = TerminateInfo{.layer = code.layer,
                             .etype = code.etype,
                             .code = code.code,
                             .sent = true,
                             .nibbles_swapped = terminate_nibbles_swapped_,
                             .text = meaning(code.layer, code.etype, code.code)};
  trace_terminate();
}

bool Qp::refuse(TermCode code, const Segment* segment, ConstBytes read_request, std::string_view rule,
                std::string received, Errc errc) {
  // RFC 5044 §7.1.2 rule 4 keeps a responder silent until the initiator is known to accept FPDUs. It has sent one.
  fenced_ = false;
  QpEvent event;
  event.kind = QpEvent::Kind::terminate_queued;
  event.failure.code = errc;
  event.failure.rule = rule;
  event.failure.received = std::move(received);
  event.failure.offset = segment ? segment->position : deframer_->position();
  if (transmit_ended_) {
    event.kind = QpEvent::Kind::failed;
    to_error();
  } else {
    queue_terminate(code, segment, read_request);
    enter(RdmapState::terminate);
    flush_all();
  }
  push_event(std::move(event));
  return false;
}

bool Qp::refuse(TermCode code, const Segment& segment, std::string_view rule, std::string_view what) {
  return refuse(code, &segment, {}, rule, std::string(what));
}

// RFC 5044 §8: nothing more is accepted from this half; one last message may be sent on the other.
void Qp::refuse_deframe(mpa::DeframeStatus status) {
  switch (status) {
    case mpa::DeframeStatus::crc_error:
      refuse({2, 0, 0x02}, nullptr, {}, "RFC 5044 §8", "an FPDU with a wrong CRC", Errc::crc_mismatch);
      return;
    case mpa::DeframeStatus::marker_error:
      refuse({2, 0, 0x03}, nullptr, {}, "RFC 5044 §8", "a marker that does not point to its FPDU",
             Errc::marker_mismatch);
      return;
    default:
      // An impossible ULPDU_Length means that the start of an FPDU was missed, which is what code 3 reports.
      refuse({2, 0, 0x03}, nullptr, {}, "RFC 5044 §8", "an impossible ULPDU_Length");
      return;
  }
}

void Qp::send_terminate(std::uint8_t layer, std::uint8_t etype, std::uint8_t code) {
  if (!connected()) return;
  if (fenced_) {
    // RFC 5044 §7.1.2 rule 4: the initiator has not shown that it accepts FPDUs, so no Terminate can be sent.
    return fail_stream(Errc::terminated, "RFC 5044 §7.1.2", "nothing that lifts the fence");
  }
  QpEvent event;
  event.kind = QpEvent::Kind::terminate_queued;
  event.failure.code = Errc::terminated;
  event.failure.offset = fed_;
  queue_terminate({layer, etype, code}, nullptr, {});
  enter(RdmapState::terminate);
  flush_all();
  push_event(std::move(event));
}

bool Qp::handle_terminate(Segment& segment) {
  std::array<std::uint8_t, terminate_max> octets;
  const ConstBytes payload =
      ConstBytes(octets).first(segment.payload.copy(MutBytes(octets).first(std::min(segment.length, octets.size()))));
  const auto terminate = wire::Terminate::parse(payload);
  QpEvent event;
  event.kind = QpEvent::Kind::terminate_received;
  event.failure.code = Errc::terminated;
  event.failure.rule = "RFC 5040 §5.4";
  event.failure.offset = segment.position;
  TerminateInfo info;
  if (terminate) {
    info.layer = terminate->layer;
    info.etype = terminate->etype;
    info.code = terminate->code;
    info.nibbles_swapped = terminate->nibbles_swapped;
    info.text = meaning(info.layer, info.etype, info.code);
    info.text += other_reading(*terminate);
    record_read_fault(*terminate);
  } else {
    info.text = "a Terminate cut short";
  }
  event.failure.received = fmt::format("Terminate: {}", info.text);
  terminate_ = std::move(info);
  trace_terminate();
  // RFC 5040 §6.2.1: the peer accepts nothing more, so nothing more is sent.
  enter(RdmapState::terminate);
  output_.clear();
  flush_all();
  push_event(std::move(event));
  return false;
}

// A Terminate with the header of one of our Reads or Atomics shows which of them failed, and how.
void Qp::record_read_fault(const wire::Terminate& terminate) {
  if (terminate.layer != PARLEY_RDMAP_LAYER_RDMAP || !terminate.d) return;
  const auto header = wire::DdpHeader::parse(terminate.ddp_header);
  if (!header || header->tagged || header->qn != PARLEY_DDP_QN_READ) return;
  for (std::uint64_t at = sends_.head(); at != sends_.tail(); ++at) {
    SendWqe& wqe = sends_[at];
    if (!wqe.fetches() || !wqe.framed || wqe.answered || wqe.msn != header->msn) continue;
    wqe.status = terminate.etype == 1 ? WcStatus::rem_access_err : WcStatus::rem_op_err;
  }
}

}  // namespace parley::nic::iwarp

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RequestFlow: responses.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "capture/rules/roce/operations.hpp"
#include "capture/rules/roce/request_flow.hpp"

namespace parley::capture {

using wire::ib::Operation;

namespace {

bool is_ack(std::uint8_t syndrome) { return (syndrome & PARLEY_IB_SYNDROME_KIND) == PARLEY_IB_SYNDROME_ACK; }
bool is_rnr(std::uint8_t syndrome) { return (syndrome & PARLEY_IB_SYNDROME_KIND) == PARLEY_IB_SYNDROME_RNR_NAK; }
bool is_nak(std::uint8_t syndrome) { return (syndrome & PARLEY_IB_SYNDROME_KIND) == PARLEY_IB_SYNDROME_NAK; }

bool is_assigned(std::uint8_t syndrome) {
  if ((syndrome & 0x80) != 0) return false;
  if (!is_nak(syndrome)) return is_ack(syndrome) || is_rnr(syndrome);
  return to_string(static_cast<wire::ib::Nak>(syndrome & PARLEY_IB_SYNDROME_VALUE)) != "reserved NAK code";
}

bool has_aeth(Operation operation) { return operation != Operation::read_response_middle; }

}  // namespace

// IBA §9.7.5.1: kinds and codes of the AETH.
void RequestFlow::syndrome(const RocePacket& p, const FlowTerms& terms) {
  const std::uint8_t s = p.packet.aeth.syndrome;
  const Side responder = other(requester_);
  if (!is_assigned(s)) {
    findings_.report(IbRule::ib_syndrome, p.frame, responder,
                     fmt::format("'s {} has the reserved syndrome 0x{:02x}", operation_text(p.operation()), s));
    return;
  }
  if (p.operation() != Operation::acknowledge && !is_ack(s)) {
    findings_.report(IbRule::ib_syndrome, p.frame, responder,
                     fmt::format("'s {} has the syndrome of a NAK (0x{:02x})", operation_text(p.operation()), s));
    return;
  }
  // IBA §9.7.7.2: a responder without end-to-end flow control gives no credits.
  if (is_ack(s) && !terms.flow_control && (s & PARLEY_IB_SYNDROME_VALUE) != PARLEY_IB_CREDITS_NONE)
    findings_.report(IbRule::ib_credits, p.frame, responder,
                     fmt::format(" gave credits (syndrome 0x{:02x}); it had said that it has no flow control", s));
  // A shared receive queue has no number of receives for one queue pair.
  else if (is_ack(s) && terms.shared_receives && (s & PARLEY_IB_SYNDROME_VALUE) != PARLEY_IB_CREDITS_NONE)
    findings_.report(IbRule::ib_credits, p.frame, responder,
                     fmt::format(" gave credits (syndrome 0x{:02x}); its receives are those of a shared queue", s));
}

void RequestFlow::response(const RocePacket& p, const FlowTerms& terms) {
  if (has_aeth(p.operation())) syndrome(p, terms);
  if (!any_ && terms.starting_psn) start_ = place_of(*terms.starting_psn);
  apply_mtu(terms);
  const ExtendedPsn place = place_of(p.packet.bth.psn);
  if (terms.set_up_seen && start_ != 0 && place < start_) {
    findings_.report(IbRule::ib_ack_unsent, p.frame, other(requester_),
                     fmt::format("'s {} has PSN {:#08x}, before the starting PSN {:#08x}",
                                 operation_text(p.operation()), p.packet.bth.psn, psn_of(start_)));
    return;
  }
  check_form(p);
  if (terms.set_up_seen) {
    check_dropped(p, place);
    settle_outstanding(p, place, terms);
    settle_retries(p, place);
  }
  if (terms.set_up_seen && has_aeth(p.operation()) && is_ack(p.packet.aeth.syndrome)) handle_credits(p, place);
  if (p.operation() == Operation::acknowledge) return acknowledge(p, place, terms);
  if (terms.set_up_seen) {
    remember_unsent(p, place, terms);
    if (const auto it = covering(place); it != seen_.end()) it->second.answer_settled = true;
    if (is_read_response(p.operation()))
      read_response(p, place, terms);
    else
      atomic_response(p, place);
    if (has_aeth(p.operation()) && is_ack(p.packet.aeth.syndrome)) check_msn(p, place);
  }
  if (is_read_response(p.operation()) && of_a_read(place)) {
    read_end_ = std::max(read_end_, place);
    return;
  }
  acknowledged_ = std::max(acknowledged_, place);
}

void RequestFlow::dropped(const RocePacket& p, const FlowTerms& terms, std::string_view why) {
  if (!terms.set_up_seen || (!any_ && !terms.starting_psn)) return;
  if (!any_) start_ = place_of(*terms.starting_psn);
  const ExtendedPsn place = place_of(p.packet.bth.psn);
  if (any_ && (place < forgotten_ || covering(place) != seen_.end())) return;  // a sound copy came before
  if (dropped_.size() >= dropped_max) dropped_.erase(dropped_.begin());
  dropped_.push_back({place, {p.frame, p.at}, why});
}

void RequestFlow::sound(const RocePacket& p) {
  if (dropped_.empty()) return;
  std::erase_if(dropped_, [place = place_of(p.packet.bth.psn)](const Dropped& d) { return d.place == place; });
}

// IBA §9.6: a packet that fails these checks is dropped without an answer, and an ACK includes all PSNs up to its own.
void RequestFlow::check_dropped(const RocePacket& p, ExtendedPsn place) {
  constexpr std::uint64_t near = 128;
  if (dropped_.empty() || (has_aeth(p.operation()) && !is_ack(p.packet.aeth.syndrome))) return;
  const auto it = std::find_if(dropped_.begin(), dropped_.end(),
                               [&](const Dropped& d) { return d.place <= place && place - d.place < near; });
  if (it == dropped_.end()) return;
  findings_.report(IbRule::ib_ack_dropped, p.frame, other(requester_),
                   fmt::format(" acknowledged PSN {:#08x} of frame {}, which it must drop: {}", psn_of(it->place),
                               it->ref.frame, it->why));
  dropped_.erase(it);
}

// IBA §9.7.5.2.1: one NAK for a gap. Another one follows only if the requester has sent the missing PSN again, which may
// be lost behind the capture point; after its ACK timeout it does so in any case.
void RequestFlow::check_nak_again(const RocePacket& p, ExtendedPsn place, const FlowTerms& terms) {
  if (!terms.set_up_seen) return;
  const auto before = std::exchange(sequence_nak_, SequenceNak{place, high_, {p.frame, p.at}});
  if (!before || before->place != place) return;
  const Duration since = p.at - before->ref.at;
  if (since < same_moment || terms.ack_timeout == Duration{0} || since > terms.ack_timeout / 2) return;
  findings_.report(IbRule::ib_nak_again, p.frame, other(requester_),
                   fmt::format(" reported the gap at PSN {:#08x} again, which it had reported in frame {}",
                               p.packet.bth.psn, before->ref.frame));
}

// IBA §9.7.5.1: an ACK and an Atomic response have no payload, and an ACK asks for nothing.
void RequestFlow::check_form(const RocePacket& p) const {
  const bool data = is_read_response(p.operation());
  if (!data && !p.packet.payload.empty())
    findings_.report(IbRule::ib_ack_form, p.frame, other(requester_),
                     fmt::format("'s {} has {}; it has no payload", operation_text(p.operation()),
                                 counted(p.packet.payload.size(), "octet")));
  const wire::ib::Bth& b = p.packet.bth;
  if (p.operation() == Operation::acknowledge && (b.ack_req || b.solicited))
    findings_.report(IbRule::ib_ack_form, p.frame, other(requester_),
                     fmt::format("'s {} has {} set; only requests have it", operation_text(p.operation()),
                                 b.ack_req ? "AckReq" : "Solicited Event"));
}

void RequestFlow::acknowledge(const RocePacket& p, ExtendedPsn place, const FlowTerms& terms) {
  const std::uint8_t s = p.packet.aeth.syndrome;
  if (!is_assigned(s)) return;
  if (terms.set_up_seen) report_departures(p, place);
  if (is_rnr(s)) {
    if (rnr_naks++ == 0) first_rnr_frame = p.frame;
    return;
  }
  if (is_nak(s)) {
    const auto code = static_cast<wire::ib::Nak>(s & PARLEY_IB_SYNDROME_VALUE);
    if (code == wire::ib::Nak::psn_sequence_error) {
      if (sequence_naks++ == 0) first_sequence_frame = p.frame;
      check_nak_again(p, place, terms);
    } else if (!fatal) {
      fatal = IbNak{other(requester_), p.frame, static_cast<std::uint8_t>(code)};
    }
    if (terms.set_up_seen) {
      remember_unsent(p, place, terms);
      check_msn(p, place);
    }
    return;
  }
  if (any_) acknowledged_ = std::max(acknowledged_, place);
  if (!terms.set_up_seen) return;
  remember_unsent(p, place, terms);
  check_msn(p, place);
  check_acknowledged_read(p, place, terms);
}

/// Whether the requester may repeat a request before the one at `it`: one that it sent before `oldest`, or that the
/// capture lacks. It does not repeat what was answered: with a depth of `n` Reads and Atomics, the `n`-th one before this
/// one was.
bool RequestFlow::may_repeat_before(Requests::const_iterator it, Instant oldest, const FlowTerms& terms) const {
  constexpr std::size_t looked_at_max = 64;
  std::size_t outstanding = 0;
  for (std::size_t n = 0; n < looked_at_max; ++n) {
    if (it->second.at < oldest) return true;
    if (start_ != 0 && it->first == start_) return false;
    if (it == seen_.begin()) return true;
    const auto before = std::prev(it);
    if (before->first + before->second.span != it->first) return true;
    if (carries_no_payload(before->second.operation) && terms.depth && ++outstanding >= *terms.depth) return false;
    it = before;
  }
  return true;
}

// IBA §9.7.5.1: a Read or an Atomic is answered by its response. A response that was not captured may be followed by an
// ACK with the same PSN: one that gives credits (§9.7.7.2), or one to a Send or Write that came again (§9.7.5.1.4), which
// takes the requester its ACK timeout.
void RequestFlow::check_acknowledged_read(const RocePacket& p, ExtendedPsn place, const FlowTerms& terms) {
  const auto it = covering(place);
  if (it == seen_.end() || !carries_no_payload(it->second.operation)) return;
  if ((p.packet.aeth.syndrome & PARLEY_IB_SYNDROME_VALUE) != PARLEY_IB_CREDITS_NONE) return;
  Request& r = it->second;
  const Duration within = terms.ack_timeout / 2 - paths_apart;
  if (std::exchange(r.answer_settled, true) || r.span_unknown || within <= Duration{0}) return;
  const bool came_again = last_again_ != Instant{} && last_again_ >= r.at - paths_apart;
  if (came_again || may_repeat_before(it, p.at - within, terms)) return;
  findings_.report(
      IbRule::ib_response_kind, p.frame, other(requester_),
      fmt::format(" answered the {} of frame {} (PSN {:#08x}) with an Acknowledge in place of its response",
                  operation_text(r.operation), r.frame, p.packet.bth.psn));
}

/// Remembers an answer to a PSN that no captured request has. settle_ahead() decides.
void RequestFlow::remember_unsent(const RocePacket& p, ExtendedPsn place, const FlowTerms& terms) {
  if (any_ && place > high_ && !ahead_ && terms.path_mtu != 0)
    ahead_ = EarlyAnswer{{p.frame, p.at}, p.packet.bth.psn, 0, true, high_};
}

/// Notes answers of known peers that depart from the specification.
void RequestFlow::report_departures(const RocePacket& p, ExtendedPsn place) {
  const auto it = seen_.find(place);
  if (it == seen_.end()) return;
  const Request& r = it->second;
  const std::uint8_t s = p.packet.aeth.syndrome;
  const Side responder = other(requester_);
  if (is_ack(s) && r.is_short)
    findings_.departs(wire::ib::Departure::takes_short_first, p.frame, responder,
                      fmt::format(" took the {} of frame {}, which is shorter than the path MTU",
                                  operation_text(r.operation), r.frame));
  const bool refused = s == (PARLEY_IB_SYNDROME_NAK | static_cast<std::uint8_t>(wire::ib::Nak::remote_access_error));
  if (refused && r.again && r.operation == Operation::read_request && r.dma_length == 0)
    findings_.departs(wire::ib::Departure::looks_read_up_again, p.frame, responder,
                      fmt::format(" refused the Read of no octets of frame {} when it came again", r.frame));
}

// IBA §9.7.7.1: the MSN of an answer is at least the number of messages up to its PSN, and at most the number sent.
void RequestFlow::check_msn(const RocePacket& p, ExtendedPsn place) {
  const bool positive = is_ack(p.packet.aeth.syndrome);
  // The packet that a NAK is about was not executed, and the capture may lack it.
  const auto it = covering(positive ? place : place - 1);
  const auto last = seen_.empty() ? seen_.end() : std::prev(seen_.end());
  if (it == seen_.end() || !it->second.completed) return;
  std::uint32_t least = *it->second.completed;
  // A responder may count a Read or an Atomic only when it has sent the last packet of the response.
  if (p.operation() != Operation::acknowledge) least = (least - 1) & 0xFFFFFF;
  const std::uint32_t msn = p.packet.aeth.msn;
  if (is_behind(msn, least)) {
    findings_.report(IbRule::ib_msn, p.frame, other(requester_),
                     fmt::format(" gave MSN {} with PSN {:#08x}, {} which {} complete", msn, p.packet.bth.psn,
                                 positive ? "up to" : "before",
                                 least == 1 ? std::string("1 message is") : fmt::format("{} messages are", least)));
    return;
  }
  if (!last->second.completed || last->first + last->second.span - 1 != high_) return;
  if (!is_behind(*last->second.completed, msn)) return;
  const EarlyAnswer a{{p.frame, p.at}, p.packet.bth.psn, msn, false, high_};
  if (!most_ || is_behind(most_->msn, msn)) most_ = a;
  if (!ahead_) ahead_ = a;
}

/// Whether the response belongs to another Read: one that the capture lacks, or one before `it` whose PSNs the request
/// at `it` wrongly reused.
bool RequestFlow::is_of_other_read(const RocePacket& p, Requests::iterator it) {
  const Operation operation = p.operation();
  const bool goes_on = operation == Operation::read_response_middle || operation == Operation::read_response_last;
  const auto before = covering(it->first - 1);
  return goes_on && (before == seen_.end() || before->second.operation == Operation::read_request);
}

// IBA §9.7.5: a Read's responses use its PSNs. All but the last are full, and they are First, Middle, Last. After a
// loss they may restart in the middle, so a First is valid there.
void RequestFlow::read_response(const RocePacket& p, ExtendedPsn place, const FlowTerms& terms) {
  const Side responder = other(requester_);
  const auto it = covering(place);
  if (it == seen_.end()) return;
  const Request& r = it->second;
  if (r.operation != Operation::read_request) {
    if (is_of_other_read(p, it)) return;
    findings_.report(IbRule::ib_response_kind, p.frame, responder,
                     fmt::format(" answered the {} of frame {} (PSN {:#08x}) with {}", operation_text(r.operation),
                                 r.frame, p.packet.bth.psn, with_article(operation_text(p.operation()))));
    return;
  }
  if (terms.path_mtu == 0) return;
  const bool last = place == it->first + r.span - 1;
  const Operation operation = p.operation();
  const bool says_last = operation == Operation::read_response_last || operation == Operation::read_response_only;
  const std::uint32_t rest = r.dma_length - (r.span - 1) * std::uint32_t{terms.path_mtu};
  const std::uint32_t due = last ? rest : terms.path_mtu;
  if (last != says_last) {
    findings_.report(IbRule::ib_read_response, p.frame, responder,
                     fmt::format("'s {} is packet {} of the {} that answer the Read of frame {}",
                                 operation_text(operation), place - it->first + 1, r.span, r.frame));
  } else if (place == it->first &&
             (operation == Operation::read_response_middle || operation == Operation::read_response_last)) {
    findings_.report(IbRule::ib_read_response, p.frame, responder,
                     fmt::format("'s {} is the first of those that answer the Read of frame {}",
                                 operation_text(operation), r.frame));
  } else if (p.packet.payload.size() != due) {
    findings_.report(IbRule::ib_read_response, p.frame, responder,
                     fmt::format("'s {} has {}; {} are expected of the Read of frame {}", operation_text(operation),
                                 counted(p.packet.payload.size(), "octet"), due, r.frame));
  }
}

// IBA §9.7.5: a retransmitted Atomic gets the same response again, from the responder's resources.
void RequestFlow::atomic_response(const RocePacket& p, ExtendedPsn place) {
  const auto it = covering(place);
  if (it == seen_.end()) return;
  Request& r = it->second;
  if (!is_atomic(r.operation)) {
    findings_.report(IbRule::ib_response_kind, p.frame, other(requester_),
                     fmt::format(" answered the {} of frame {} (PSN {:#08x}) with {}", operation_text(r.operation),
                                 r.frame, p.packet.bth.psn, with_article(operation_text(p.operation()))));
    return;
  }
  if (!r.original) {
    r.original = p.packet.atomic_original;
  } else if (*r.original != p.packet.atomic_original) {
    findings_.report(
        IbRule::ib_atomic_response, p.frame, other(requester_),
        fmt::format(" answered the {} of frame {} again with another value", operation_text(r.operation), r.frame));
  }
}

}  // namespace parley::capture

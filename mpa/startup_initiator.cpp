// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The initiator's half of mpa/startup.hpp: RFC 5044 §7.1.2 rules 1 and 3, RFC 6581 §9 and §10.
#include <utility>

#include "base/after.hpp"
#include "base/text.hpp"
#include "mpa/startup.hpp"
#include "mpa/startup_text.hpp"

namespace parley::mpa {

std::size_t Startup::request_room(const StartupOptions& options) {
  const Quirk& peer = **find_quirk(options.peer_quirk);
  const Quirk& play = **find_quirk(options.play_quirk);
  return peer.ulp_room(play.private_revision == 0 && options.revision == 2);  // as plan_request
}

Result<void> Startup::send_request(Instant now, ConstBytes private_data) {
  const RequestPlan plan = plan_request(options_, *peer_, *play_, parameters_);
  if (private_data.size() > peer_->ulp_room(plan.enhanced.has_value())) return fail(Errc::bad_private_data);
  request_s_ = (plan.flags & PARLEY_MPA_FLAG_S) != 0;
  auto frame = wire::MpaFrame{.key = wire::MpaKey::req,
                              .flags = plan.flags,
                              .revision = plan.revision,
                              .enhanced = plan.enhanced,
                              .private_data = private_data}
                   .emit();
  if (!frame) return tl::unexpected(frame.error());
  transmit_ = std::move(*frame);
  // The quirk of a private revision: octets that PD_Length does not count.
  transmit_.insert(transmit_.begin() + PARLEY_MPA_HEADER_LEN, play_->private_extension, std::uint8_t{0});
  waiting_ = options_.timeouts.reply;
  enter(StartupState::wait_reply, limited(now, waiting_));
  return {};
}

bool Startup::reply_revision_is_bad(std::uint8_t revision) {
  if (revision == parameters_.revision) return false;
  // A rejection with a lower revision is still a rejection. The flags precede the revision on the wire.
  Reader r(in_);
  r.skip(PARLEY_MPA_FLAGS_OFF);
  const bool reject = (r.u8() & PARLEY_MPA_FLAG_R) != 0;
  if (reject && revision < parameters_.revision) return false;
  const std::string received =
      "Rev " + std::to_string(revision) + " in the Reply to a Request with Rev " + std::to_string(parameters_.revision);
  if (revision == 1 && parameters_.revision == 2) {  // RFC 6581 §10
    retry_or_fail(Errc::bad_revision, "RFC 6581 §10", received, "the peer knows revision 1 only", PARLEY_MPA_REV_OFF,
                  StartupEvent::Close::graceful);
    return true;
  }
  fail_with(Errc::bad_revision, "RFC 5044 §7.1.1", received,
            revision == 0 ? "the peer follows the RDMA Consortium's protocol, not the RFCs (RFC 5044 Appendix C)"
                          : "the peer must not answer with a revision it was not asked for",
            StartupEvent::Close::graceful, PARLEY_MPA_REV_OFF);
  return true;
}

void Startup::retry_or_fail(Errc code, std::string_view rule, std::string received, std::string advice,
                            std::uint64_t offset, StartupEvent::Close close) {
  const bool was_two = parameters_.revision == 2;
  const bool play_allows =
      play_->fallback == Fallback::rst_or_fin || (play_->fallback == Fallback::rst && code == Errc::peer_reset);
  const bool retry = was_two && options_.fall_back_to_v1 && play_allows;
  if (was_two) advice += retry ? "; trying revision 1" : "; try revision 1";
  StartupEvent event{.kind = retry ? StartupEvent::Kind::retry_v1 : StartupEvent::Kind::failed};
  event.failure = {.step = step(),
                   .code = make_error_code(code),
                   .rule = std::string(was_two ? rule : std::string_view{}),
                   .received = std::move(received),
                   .advice = std::move(advice),
                   .offset = offset};
  event.close = close;
  finish(std::move(event));
}

void Startup::terminate_with(std::uint8_t code, Errc errc, std::string_view rule, std::string received,
                             std::string advice) {
  StartupEvent event{.kind = StartupEvent::Kind::terminate};
  event.failure = {.step = step::send_rtr,
                   .code = make_error_code(errc),
                   .rule = std::string(rule),
                   .received = std::move(received),
                   .advice = std::move(advice)};
  event.terminate_code = code;
  event.close = StartupEvent::Close::graceful;
  finish(std::move(event));
}

// Returns how many of the `fed` octets are taken. The first `taken` of them belong to the Reply.
std::size_t Startup::judge_reply(Instant now, const wire::MpaFrameView& frame, std::size_t taken, std::size_t fed) {
  Parameters& p = parameters_;
  p.peer_flags = frame.flags;
  ConstBytes data = frame.private_data;
  std::optional<wire::MpaEnhanced> e;
  if (enhanced(frame)) {
    e = *wire::MpaEnhanced::parse(data);
    data = data.subspan(PARLEY_MPA_ENH_LEN);
    p.peer_ird = e->ird;
    p.peer_ord = e->ord;
  }
  Bytes private_data(data.begin(), data.end());
  if (frame.r()) {  // RFC 5044 §7.1.2 rule 3; OFA 2007-10 Rtr §2 rule 1: nothing follows a rejection, S or not
    if (frame.revision != p.revision)
      add_reason(p, {.text = "the Reply has Rev {a}: the peer may have rejected the revision, not the connection "
                             "(RFC 5044 §7.1.1)",
                     .a = frame.revision});
    StartupEvent event{.kind = StartupEvent::Kind::rejected};
    event.failure = {.step = step::wait_reply,
                     .code = make_error_code(Errc::rejected),
                     .received = "R=1 with " + counted(private_data.size(), "octet") + " of private data",
                     .advice = "ask the peer's application why",
                     .offset = PARLEY_MPA_FLAGS_OFF};
    event.private_data = std::move(private_data);
    event.close = StartupEvent::Close::graceful;
    finish(std::move(event));
    state_ = StartupState::rejected;
    return fed;
  }
  if (p.revision == 2 && !e) {  // RFC 6581 §10: enhanced is answered by enhanced
    retry_or_fail(Errc::malformed, "RFC 6581 §10", "S=0 in the Reply to an enhanced Request",
                  "the peer does not know enhanced set-up", PARLEY_MPA_FLAGS_OFF, StartupEvent::Close::graceful);
    return fed;
  }
  if (play_->refuses_markers && frame.m()) {
    fail_with(Errc::unsupported, {}, "M=1", "this side plays a peer without markers");
    return fed;
  }
  if (taken < fed && !peer_->no_fence) {  // RFC 5044 §7.1.2 rule 4
    fail_with(Errc::extra_octets, "RFC 5044 §7.1.2 rule 4", "octets right after the Reply",
              "the responder must wait for the first FPDU before it sends one; name its quirk if it is known for that",
              StartupEvent::Close::reset, in_.size());
    return fed;
  }
  if (taken < fed)
    add_reason(p,
               "octets right after the Reply were accepted as this peer's known departure from RFC 5044 §7.1.2 rule 4");

  settle_flags(p.crc, p.rx_markers, frame.flags, p);
  if (!local_error_.empty()) {
    enter(StartupState::open, never);
    handle_local_error(now, local_error_);
    return fed;
  }
  if (e) {
    if (Refusal no = judge_enhanced_reply(options_, *peer_, *play_, *e, p); no.terminate_code != 0) {
      terminate_with(no.terminate_code, no.code, no.rule, std::move(no.received), std::move(no.advice));
      return fed;
    }
  } else {
    judge_plain_reply(options_, request_s_, frame.s(), p);
    if (p.rtr == Rtr::frame) send_rtr_frame();  // OFA 2007-10 Rtr §2 rule 1: the Reply accepts
  }
  in_ = {};
  enter(StartupState::open, never);
  emit(StartupEvent::Kind::established, std::move(private_data));
  return taken;
}

// OFA 2007-10 Rtr §2 rule 3: the Rtr frame's S is 0. OFA 2007-10 Rtr §2 rule 4: its C is that of the Reply.
void Startup::send_rtr_frame() {
  const std::uint8_t m = parameters_.rx_markers ? PARLEY_MPA_FLAG_M : 0;
  const auto c = static_cast<std::uint8_t>(parameters_.peer_flags & PARLEY_MPA_FLAG_C);
  const bool hex = options_.rtr_spelling == RtrSpelling::hex;
  auto frame = wire::MpaFrame{.key = hex ? wire::MpaKey::rtr_hex : wire::MpaKey::rtr,
                              .flags = static_cast<std::uint8_t>(m | c),
                              .revision = 1}
                   .emit();
  transmit_.insert(transmit_.end(), frame->begin(), frame->end());
}

}  // namespace parley::mpa

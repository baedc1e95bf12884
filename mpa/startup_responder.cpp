// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The responder's half of mpa/startup.hpp: RFC 5044 §7.1.2 rules 2 and 4, RFC 6581 §9 and §10.
#include <utility>

#include "base/after.hpp"
#include "base/text.hpp"
#include "mpa/startup.hpp"
#include "mpa/startup_text.hpp"

namespace parley::mpa {

bool Startup::request_revision_is_bad(std::uint8_t revision) {
  if (revision != 0 && revision <= options_.revision) return false;
  const std::string received = "Rev " + std::to_string(revision);
  if (revision == 0) {
    // RFC 5044 Appendix C: a responder that does not support the RDMA Consortium's protocol answers its own revision,
    // then closes. R=1, so that a peer that reads on does not read it as an accept.
    transmit_ = *wire::MpaFrame{.key = wire::MpaKey::rep, .flags = PARLEY_MPA_FLAG_R, .revision = 1}.emit();
    fail_with(Errc::bad_revision, "RFC 5044 §7.1.1", received,
              "the peer follows the RDMA Consortium's protocol; it was answered with revision 1 (RFC 5044 Appendix C)",
              StartupEvent::Close::graceful, PARLEY_MPA_REV_OFF);
    return true;
  }
  if (revision == 2) {
    // A reset, because Linux cxgb4 and irdma retry with revision 1 after an RST but not after a FIN.
    fail_with(Errc::bad_revision, "RFC 6581 §10", received,
              "this side was set to revision 1; the peer should retry with it", StartupEvent::Close::reset,
              PARLEY_MPA_REV_OFF);
    return true;
  }
  fail_with(Errc::bad_revision, "RFC 5044 §7.1.1", received, "this side knows revisions 1 and 2",
            StartupEvent::Close::graceful, PARLEY_MPA_REV_OFF);
  return true;
}

void Startup::judge_request(Instant, const wire::MpaFrameView& frame) {
  Parameters& p = parameters_;
  p = {};
  p.revision = frame.revision;
  p.peer_flags = frame.flags;
  p.crc = options_.crc || frame.c();
  p.tx_markers = frame.m();
  p.rx_markers = options_.markers;
  p.ird = options_.ird;
  p.ord = options_.ord;
  request_s_ = frame.s();
  ConstBytes data = frame.private_data;
  peer_enhanced_ = enhanced(frame) && data.size() >= PARLEY_MPA_ENH_LEN;
  if (peer_enhanced_) {
    request_enhanced_ = *wire::MpaEnhanced::parse(data);
    data = data.subspan(PARLEY_MPA_ENH_LEN);
    p.peer_ird = request_enhanced_.ird;
    p.peer_ord = request_enhanced_.ord;
    p.peer_to_peer = request_enhanced_.a;
    if (p.peer_to_peer)  // RFC 6581 §9.2: B, C and D count only together with A
      p.offered = {request_enhanced_.b, request_enhanced_.c, request_enhanced_.d};
  }
  // Departures that this side plays; they do not involve the ULP.
  if (play_->refuses_markers && frame.m()) {
    Bytes nothing(peer_enhanced_ ? PARLEY_MPA_ENH_LEN : 0);
    const auto flags = static_cast<std::uint8_t>(PARLEY_MPA_FLAG_R | (frame.flags & PARLEY_MPA_FLAG_C) |
                                                 (peer_enhanced_ ? PARLEY_MPA_FLAG_S : 0));
    transmit_ =
        *wire::MpaFrame{.key = wire::MpaKey::rep, .flags = flags, .revision = frame.revision, .private_data = nothing}
             .emit();
    fail_with(Errc::unsupported, {}, "M=1", "this side plays a peer without markers", StartupEvent::Close::graceful,
              PARLEY_MPA_FLAGS_OFF);
    return;
  }
  if (play_->rejects_short_enhanced && enhanced(frame) && !peer_enhanced_) {
    transmit_ =
        *wire::MpaFrame{
            .key = wire::MpaKey::rep, .flags = PARLEY_MPA_FLAG_S | PARLEY_MPA_FLAG_R, .revision = frame.revision}
             .emit();
    fail_with(Errc::malformed, "RFC 6581 §6", "S=1 without enhanced data", "this side plays a peer that rejects it",
              StartupEvent::Close::graceful, PARLEY_MPA_PD_LENGTH_OFF);
    return;
  }
  if (play_->needs_peer_to_peer && frame.revision == 2 && !p.offered.write && !p.offered.read) {
    fail_with(Errc::unsupported, {}, "A=0, or neither C nor D",
              "this side plays a peer that resets client/server Requests", StartupEvent::Close::reset,
              PARLEY_MPA_HEADER_LEN);
    return;
  }
  enter(StartupState::ulp_decision, never);  // no timer here: the peer has its own timer for the Reply
  emit(StartupEvent::Kind::request, Bytes(data.begin(), data.end()));
}

std::size_t Startup::reply_room() const { return peer_->ulp_room(peer_enhanced_); }

// Builds the Reply; parameters are changed only if it can be sent.
Result<void> Startup::reply(const StartupOptions& options, ConstBytes private_data, bool accepting,
                            bool& frame_follows) {
  if (private_data.size() > reply_room())
    return fail(Errc::bad_private_data, "private_data has {a} octets; at most {b} fit into this Reply",
                std::ssize(private_data), static_cast<std::int64_t>(reply_room()));
  Parameters p = parameters_;
  const bool own_c = options.crc && !play_->crc_off;
  wire::MpaFrame frame{.key = wire::MpaKey::rep, .revision = p.revision, .private_data = private_data};
  int flags =
      (options.markers ? PARLEY_MPA_FLAG_M : 0) | (own_c ? PARLEY_MPA_FLAG_C : 0) | (accepting ? 0 : PARLEY_MPA_FLAG_R);
  if (play_->crc_off) flags |= p.peer_flags & PARLEY_MPA_FLAG_C;  // a peer with this quirk copies the Request's C
  settle_flags(own_c, options.markers, p.peer_flags, p);
  frame_follows = false;
  if (peer_enhanced_) {
    flags |= PARLEY_MPA_FLAG_S;  // RFC 6581 §10: enhanced is answered by enhanced
    frame.enhanced = answer_enhanced(options, *play_, request_enhanced_, p);
  } else {
    frame_follows = answer_plain(options, *peer_, *play_, p.revision, request_s_, p) && accepting;
    if (frame_follows) flags |= PARLEY_MPA_FLAG_S;
  }
  if (play_->echoes_reserved) flags |= p.peer_flags & (p.revision == 2 ? PARLEY_MPA_RES_V2 : PARLEY_MPA_RES_V1);
  if (play_->echoes_r) flags |= p.peer_flags & PARLEY_MPA_FLAG_R;
  frame.flags = static_cast<std::uint8_t>(flags);
  auto octets = frame.emit();
  if (!octets) return tl::unexpected(octets.error());
  transmit_ = std::move(*octets);
  parameters_ = std::move(p);
  in_ = {};
  return {};
}

Result<void> Startup::accept(Instant now, const StartupOptions& options, ConstBytes private_data) {
  if (state_ != StartupState::ulp_decision) return fail(Errc::wrong_state);
  if (auto checked = check_options(Role::responder, options); !checked) return checked;
  bool frame_follows = false;
  if (auto sent = reply(options, private_data, true, frame_follows); !sent) return sent;
  waiting_ = parameters_.rtr != Rtr::none ? options.timeouts.rtr : options.timeouts.first_fpdu;
  const Instant deadline = limited(now, waiting_);
  if (frame_follows) {
    enter(StartupState::wait_rtr_frame, deadline);
    return {};
  }
  enter(StartupState::wait_first_fpdu, deadline);
  emit(StartupEvent::Kind::fpdu_mode);
  if (play_->no_fence && parameters_.rtr == Rtr::none) {  // the quirk: full operation before the first FPDU arrives
    enter(StartupState::open, never);
    emit(StartupEvent::Kind::established);
  }
  return {};
}

Result<void> Startup::reject(Instant, ConstBytes private_data) {
  if (state_ != StartupState::ulp_decision) return fail(Errc::wrong_state);
  bool frame_follows = false;
  if (auto sent = reply(options_, private_data, false, frame_follows); !sent) return sent;
  enter(StartupState::rejected, never);
  emit(StartupEvent::Kind::rejected);
  return {};
}

}  // namespace parley::mpa

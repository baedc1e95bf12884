// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mpa/startup.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/after.hpp"
#include "base/assert.hpp"
#include "base/text.hpp"
#include "base/trace.hpp"
#include "mpa/startup_text.hpp"

namespace parley::mpa {

std::string_view to_string(StartupState state) {
  switch (state) {
    case StartupState::wait_reply: return "wait_reply";
    case StartupState::wait_request: return "wait_request";
    case StartupState::ulp_decision: return "ulp_decision";
    case StartupState::wait_rtr_frame: return "wait_rtr_frame";
    case StartupState::wait_first_fpdu: return "wait_first_fpdu";
    case StartupState::open: return "open";
    case StartupState::rejected: return "rejected";
    case StartupState::failed: return "failed";
  }
  return "unknown";
}

std::string_view to_string(StartupEvent::Kind kind) {
  switch (kind) {
    case StartupEvent::Kind::request: return "request";
    case StartupEvent::Kind::fpdu_mode: return "fpdu_mode";
    case StartupEvent::Kind::established: return "established";
    case StartupEvent::Kind::rejected: return "rejected";
    case StartupEvent::Kind::terminate: return "terminate";
    case StartupEvent::Kind::failed: return "failed";
    case StartupEvent::Kind::retry_v1: return "retry_v1";
  }
  return "unknown";
}

namespace {

std::string set_of(std::initializer_list<std::pair<char, bool>> bits) {
  std::string out;
  for (const auto& [name, set] : bits) {
    if (set && !out.empty()) out += ',';
    if (set) out += name;
  }
  return out;
}

std::string_view kind_of(wire::MpaKey key) {
  switch (key) {
    case wire::MpaKey::req: return "Request";
    case wire::MpaKey::rep: return "Reply";
    case wire::MpaKey::rtr:
    case wire::MpaKey::rtr_hex: return "Rtr";
    case wire::MpaKey::unknown: break;
  }
  return "unknown";
}

}  // namespace

Startup::Startup(Role role, const StartupOptions& options, const Quirk& peer, const Quirk& play)
    : role_(role), options_(options), peer_(&peer), play_(&play) {
  parameters_.revision = options.revision;
}

Result<Startup> Startup::create(Role role, const StartupOptions& options, ConstBytes private_data, Instant now) {
  if (auto checked = check_options(role, options); !checked) return tl::unexpected(checked.error());
  const auto peer = find_quirk(options.peer_quirk), play = find_quirk(options.play_quirk);
  Startup machine(role, options, **peer, **play);
  if (role == Role::initiator) {
    if (auto sent = machine.send_request(now, private_data); !sent) return tl::unexpected(sent.error());
  } else {
    machine.enter(StartupState::wait_request, limited(now, options.timeouts.request));
    machine.waiting_ = options.timeouts.request;
  }
  return machine;
}

std::size_t Startup::handle_bytes(Instant now, ConstBytes in) {
  leftover_.clear();
  switch (state_) {
    case StartupState::wait_reply:
    case StartupState::wait_request: return read_frame(now, in);
    case StartupState::wait_rtr_frame: return handle_rtr_frame(in);
    case StartupState::ulp_decision:
      if (!in.empty())  // RFC 5044 §7.1.2 rule 3: the initiator may send only after the Reply
        fail_with(Errc::extra_octets, "RFC 5044 §7.1.2 rule 3", "octets after the Request, before the Reply",
                  "the peer sends data too early or its PD_Length is too small", StartupEvent::Close::graceful,
                  in_.size());
      return in.size();
    case StartupState::wait_first_fpdu:
    case StartupState::open: return 0;
    case StartupState::rejected:
    case StartupState::failed: break;
  }
  return in.size();
}

std::size_t Startup::frame_wanted() const {
  if (in_.size() < PARLEY_MPA_HEADER_LEN) return PARLEY_MPA_HEADER_LEN;
  Reader r(in_);
  r.skip(PARLEY_MPA_PD_LENGTH_OFF);
  return PARLEY_MPA_HEADER_LEN + std::size_t{r.be16()};
}

std::size_t Startup::read_frame(Instant now, ConstBytes in) {
  std::size_t taken = 0;
  // The frame usually arrives whole, so reserve its size.
  if (in_.empty()) in_.reserve(std::min<std::size_t>(in.size(), PARLEY_MPA_HEADER_LEN + PARLEY_MPA_PD_MAX));
  for (;;) {
    const std::size_t n = std::min(frame_wanted() - in_.size(), in.size() - taken);
    const ConstBytes piece = in.subspan(taken, n);
    const bool head_known = in_.size() >= PARLEY_MPA_HEADER_LEN;
    in_.insert(in_.end(), piece.begin(), piece.end());
    taken += n;
    if (!head_known && !check_head()) return in.size();
    if (in_.size() >= PARLEY_MPA_HEADER_LEN && in_.size() == frame_wanted()) break;
    if (taken < in.size()) continue;
    if (play_->whole_frame_only && !in_.empty())
      fail_with(Errc::malformed, {}, "a startup frame in more than one segment", "send it in one segment",
                StartupEvent::Close::reset, in_.size());
    return taken;
  }
  const wire::MpaFrameView frame = *wire::MpaFrameView::parse(in_);
  if (trace_ != nullptr) trace_frame(false, frame);
  if (role_ == Role::initiator) return judge_reply(now, frame, taken, in.size());
  judge_request(now, frame);
  return taken == in.size() ? taken : taken + handle_bytes(now, in.subspan(taken));
}

// Checks the octets so far in wire order, so that the verdict does not depend on TCP's segmentation.
bool Startup::check_head() {
  const ConstBytes head = ConstBytes(in_).first(std::min<std::size_t>(in_.size(), PARLEY_MPA_KEY_LEN));
  const std::string_view key = role_ == Role::initiator ? PARLEY_MPA_KEY_REP : PARLEY_MPA_KEY_REQ;
  const std::size_t wrong = first_difference(head, key);
  if (wrong < head.size()) {
    bad_key(wrong);
    return false;
  }
  if (in_.size() > PARLEY_MPA_REV_OFF) {
    Reader r(in_);
    r.skip(PARLEY_MPA_REV_OFF);
    if (!check_revision(r.u8())) return false;
  }
  if (in_.size() < PARLEY_MPA_HEADER_LEN) return true;
  return check_lengths(*wire::MpaFrameView::parse(in_));
}

// RFC 5044 §7.1.2 rules 5 and 8.
void Startup::bad_key(std::size_t at) {
  const ConstBytes head = ConstBytes(in_).first(at + 1);
  const bool same_role =
      wire::may_become_mpa_key(head) &&
      first_difference(head, role_ == Role::initiator ? PARLEY_MPA_KEY_REQ : PARLEY_MPA_KEY_REP) == head.size();
  std::string advice = "the peer does not speak MPA on this port";
  std::string_view rule = "RFC 5044 §7.1.2 rule 5";
  if (same_role) {
    rule = "RFC 5044 §7.1.2 rule 8";
    advice = role_ == Role::initiator ? "both sides act as initiator; one must listen"
                                      : "both sides act as responder; one must connect";
  }
  fail_with(Errc::bad_key, rule, "key " + quoted_octets(head), std::move(advice), StartupEvent::Close::graceful, at);
}

bool Startup::check_revision(std::uint8_t revision) {
  if (play_->private_revision != 0) {
    if (revision == play_->private_revision) return true;
    fail_with(Errc::bad_revision, "RFC 5044 §7.1.1", "Rev " + std::to_string(revision),
              "speak Rev " + std::to_string(play_->private_revision), StartupEvent::Close::graceful,
              PARLEY_MPA_REV_OFF);
    return false;
  }
  if (revision == 129) {
    fail_with(Errc::bad_revision, "RFC 5044 §7.1.1", "Rev 129",
              "the peer is an Alibaba erdma device, which talks to its own kind only", StartupEvent::Close::graceful,
              PARLEY_MPA_REV_OFF);
    return false;
  }
  return !(role_ == Role::initiator ? reply_revision_is_bad(revision) : request_revision_is_bad(revision));
}

bool Startup::enhanced(const wire::MpaFrameView& frame) const {
  return frame.revision == 2 && (frame.s() || play_->enhanced_by_revision);
}

std::size_t Startup::private_data_limit(const wire::MpaFrameView& frame) const {
  const std::size_t own = std::min(options_.private_data_max, play_->private_data_max);
  return std::min<std::size_t>(PARLEY_MPA_PD_MAX, own + (enhanced(frame) ? PARLEY_MPA_ENH_LEN : 0));
}

bool Startup::check_lengths(const wire::MpaFrameView& frame) {
  const auto received = [&frame] { return "PD_Length " + std::to_string(frame.pd_length); };
  if (frame.pd_length > PARLEY_MPA_PD_MAX) {  // RFC 5044 §7.1.1
    fail_with(Errc::bad_private_data, "RFC 5044 §7.1.1", received(), "the peer must send at most 512 octets",
              StartupEvent::Close::graceful, PARLEY_MPA_PD_LENGTH_OFF);
    return false;
  }
  if (frame.pd_length > private_data_limit(frame)) {
    fail_with(Errc::bad_private_data, {}, received(),
              "this side takes " + std::to_string(private_data_limit(frame)) + "; raise private_data_max",
              play_->private_data_max < PARLEY_MPA_PD_MAX ? StartupEvent::Close::reset : StartupEvent::Close::graceful,
              PARLEY_MPA_PD_LENGTH_OFF);
    return false;
  }
  const bool tolerated = role_ == Role::responder && play_->rejects_short_enhanced;
  if (enhanced(frame) && frame.pd_length < PARLEY_MPA_ENH_LEN && !tolerated) {  // RFC 6581 §6
    fail_with(Errc::malformed, "RFC 6581 §6", received() + " with S=1 under revision 2",
              "S promises four octets of enhanced data", StartupEvent::Close::graceful, PARLEY_MPA_PD_LENGTH_OFF);
    return false;
  }
  return true;
}

// OFA 2007-10 Rtr §2; for robustness a valid FPDU is accepted instead of the frame. OFA 2007-10 Rtr §2 rule 3: S is
// ignored, and so is any other flag: the Reply has settled them.
std::size_t Startup::handle_rtr_frame(ConstBytes in) {
  const std::size_t held = in_.size();
  const ConstBytes piece = in.first(std::min(PARLEY_MPA_HEADER_LEN - held, in.size()));
  in_.insert(in_.end(), piece.begin(), piece.end());
  const ConstBytes head = ConstBytes(in_).first(std::min<std::size_t>(in_.size(), PARLEY_MPA_KEY_LEN));
  const std::size_t wrong = std::min(head.size(), std::max(first_difference(head, PARLEY_MPA_KEY_RTR),
                                                           first_difference(head, PARLEY_MPA_KEY_RTR_HEX)));
  if (wrong < head.size()) {
    // "MPA " cannot begin an FPDU: its fourth octet would be an RDMAP control octet of version 0 (RFC 5040 §4.1).
    if (wrong >= 4) {
      fail_with(Errc::bad_key, "OFA 2007-10 Rtr §1", "key " + quoted_octets(head.first(wrong + 1)),
                "an Rtr frame or an FPDU was expected after the Reply", StartupEvent::Close::graceful, wrong);
      return in.size();
    }
    in_.resize(held);
    leftover_ = std::exchange(in_, {});
    add_reason(parameters_,
               "an FPDU came where the Rtr frame was expected; it was accepted instead (OFA 2007-10 Rtr §2)");
    enter(StartupState::wait_first_fpdu, deadline_);
    emit(StartupEvent::Kind::fpdu_mode);
    return 0;
  }
  if (in_.size() < PARLEY_MPA_HEADER_LEN) return piece.size();
  const wire::MpaFrameView frame = *wire::MpaFrameView::parse(in_);
  if (trace_ != nullptr) trace_frame(false, frame);
  if (frame.revision != 1) {
    fail_with(Errc::bad_revision, "OFA 2007-10 Rtr §2", "Rev " + std::to_string(frame.revision) + " in the Rtr frame",
              "the Rtr frame belongs to revision 1", StartupEvent::Close::graceful, PARLEY_MPA_REV_OFF);
    return in.size();
  }
  if (frame.pd_length != 0) {
    fail_with(Errc::bad_private_data, "OFA 2007-10 Rtr §2",
              "PD_Length " + std::to_string(frame.pd_length) + " in the Rtr frame", "the Rtr frame carries no data",
              StartupEvent::Close::graceful, PARLEY_MPA_PD_LENGTH_OFF);
    return in.size();
  }
  add_reason(parameters_, {.text = "the Rtr frame arrived with the key {w} (OFA 2007-10 Rtr §1)",
                           .word = wire::to_string(frame.key)});
  if (parameters_.rtr != Rtr::frame) {
    add_reason(parameters_,
               {.text = "it was taken although a {w} RTR was expected", .word = to_string(parameters_.rtr)});
    parameters_.rtr = Rtr::frame;
  }
  in_ = {};
  enter(StartupState::open, never);
  emit(StartupEvent::Kind::established);
  return piece.size();
}

void Startup::handle_first_fpdu(Instant, Rtr form) {
  if (state_ != StartupState::wait_first_fpdu) return;
  const bool asked = parameters_.answered.empty() ? form == parameters_.rtr : parameters_.answered.has(form);
  const bool message = form == Rtr::none;
  if (parameters_.rtr != Rtr::none) {
    if (!asked)  // RFC 5044 §7.1.2 rule 4 requires any valid FPDU, so this one also releases the fence
      add_reason(parameters_,
                 {.text = message ? "the first FPDU was a ULP message, not the agreed RTR; it was accepted instead"
                                  : "the first FPDU was a {r}, not the agreed RTR; it was accepted instead",
                  .rtr = form});
    parameters_.rtr = form;
  } else if (form == Rtr::write || form == Rtr::read) {
    add_reason(parameters_, {.text = "the first FPDU was a {r}: an RTR that nothing announced", .rtr = form});
  }
  enter(StartupState::open, never);
  emit(StartupEvent::Kind::established);
}

void Startup::handle_end(Instant, bool reset) {
  const Errc code = reset ? Errc::peer_reset : Errc::peer_closed;
  const auto close = reset ? StartupEvent::Close::none : StartupEvent::Close::graceful;
  std::string received = reset ? "RST" : "FIN";
  switch (state_) {
    case StartupState::wait_reply:
    case StartupState::wait_request:
      if (!in_.empty()) {
        received += " after " + counted(in_.size(), "octet") + " of its startup frame";
        fail_with(code, role_ == Role::initiator ? "RFC 5044 §7.1.2 rule 3" : "RFC 5044 §7.1.2 rule 2",
                  std::move(received), "the peer gave up in the middle", close, in_.size());
      } else if (role_ == Role::initiator) {
        retry_or_fail(code, "RFC 6581 §10", received + " instead of a Reply", "the peer does not accept the Request", 0,
                      close);
      } else {
        fail_with(code, {}, received + " instead of a Request", "nothing was asked: a port scan or a peer that gave up",
                  close);
      }
      return;
    case StartupState::ulp_decision:
      fail_with(code, {}, received + " before the Reply", "decide sooner than the peer's timeout for the Reply", close,
                in_.size());
      return;
    case StartupState::wait_rtr_frame:
    case StartupState::wait_first_fpdu:
      fail_with(code, {}, received + " before the first FPDU",
                "the peer could not use the Reply; see the parameters for what it said", close);
      return;
    case StartupState::open:
    case StartupState::rejected:
    case StartupState::failed: return;
  }
}

void Startup::handle_deadline(Instant now) {
  if (deadline_ == never || now < deadline_) return;
  const std::string in_time = " for " + exact_duration_text(waiting_);
  switch (state_) {
    case StartupState::wait_request:
    case StartupState::wait_reply: {
      const std::string_view frame = role_ == Role::initiator ? "Reply" : "Request";
      const std::string got = in_.empty() ? "nothing" + in_time
                                          : "only " + counted(in_.size(), "octet") + " of the " + std::string(frame) +
                                                " within " + exact_duration_text(waiting_);
      // RFC 5044 §7.1.2 rules 8 and 10
      const bool silent = in_.empty() && role_ == Role::responder;
      fail_with(Errc::timed_out, silent ? "RFC 5044 §7.1.2 rule 8" : "RFC 5044 §7.1.2 rule 10", got,
                role_ == Role::initiator
                    ? "see whether the peer's application accepts in time, or raise timeouts.reply"
                    : "see whether the peer speaks MPA and speaks first, or raise timeouts.request",
                StartupEvent::Close::graceful, in_.size());
      return;
    }
    case StartupState::wait_rtr_frame:
    case StartupState::wait_first_fpdu:
      fail_with(Errc::timed_out, "RFC 5044 §7.1.2 rule 10", "no FPDU" + in_time,
                parameters_.rtr == Rtr::none ? "the initiator's ULP must speak first, or agree on an RTR"
                                             : "the RTR that was agreed did not come",
                // After the Reply the initiator considers the connection up: a FIN would look like a graceful close.
                StartupEvent::Close::reset);
      return;
    default: return;
  }
}

void Startup::handle_local_error(Instant, std::string_view what) {
  switch (state_) {
    case StartupState::wait_reply: local_error_ = what; return;
    case StartupState::open:
      if (role_ == Role::initiator && parameters_.revision == 2) {  // RFC 6581 §9.2
        terminate_with(5, Errc::cancelled, "RFC 6581 §9.2", "an accepting Reply", std::string(what));
        return;
      }
      [[fallthrough]];
    case StartupState::wait_request:
    case StartupState::ulp_decision:
    case StartupState::wait_rtr_frame:
    case StartupState::wait_first_fpdu:
      fail_with(Errc::cancelled, {}, {}, std::string(what), StartupEvent::Close::reset);
      return;
    case StartupState::rejected:
    case StartupState::failed: return;
  }
}

cm::Step Startup::step() const {
  switch (state_) {
    case StartupState::wait_reply: return step::wait_reply;
    case StartupState::wait_request: return step::wait_request;
    case StartupState::ulp_decision: return step::ulp_decision;
    case StartupState::wait_rtr_frame: return step::wait_rtr;
    case StartupState::wait_first_fpdu: return parameters_.rtr == Rtr::none ? step::wait_first_fpdu : step::wait_rtr;
    default: return cm::step::data;
  }
}

void Startup::enter(StartupState state, Instant deadline) {
  state_ = state;
  deadline_ = deadline;
}

void Startup::emit(StartupEvent::Kind kind, Bytes private_data) {
  StartupEvent& event = queue(kind);
  // The events at the end of startup carry the reasons. fpdu_mode is for the queue pair, which does not need them.
  Reasons reasons;
  if (kind == StartupEvent::Kind::fpdu_mode) std::swap(reasons, parameters_.reasons);
  event.parameters = parameters_;
  if (kind == StartupEvent::Kind::fpdu_mode) std::swap(reasons, parameters_.reasons);
  event.private_data = std::move(private_data);
  if (kind == StartupEvent::Kind::rejected) event.close = StartupEvent::Close::graceful;
}

StartupEvent& Startup::queue(StartupEvent::Kind kind) {
  if (!event_ && more_events_.empty()) return event_.emplace(StartupEvent{.kind = kind});
  PARLEY_ASSERT(more_events_.size() < 3);
  return more_events_.emplace_back(StartupEvent{.kind = kind});
}

// RFC 5044 §7.1.2: any error in startup ends the connection; nothing is queued after it.
void Startup::finish(StartupEvent event) {
  event.parameters = parameters_;
  enter(StartupState::failed, never);
  in_ = {};
  const StartupEvent::Kind kind = event.kind;
  queue(kind) = std::move(event);
}

void Startup::fail_with(Errc code, std::string_view rule, std::string received, std::string advice,
                        StartupEvent::Close close, std::uint64_t offset) {
  StartupEvent event{.kind = StartupEvent::Kind::failed};
  event.failure = {.step = step(),
                   .code = make_error_code(code),
                   .rule = std::string(rule),
                   .received = std::move(received),
                   .advice = std::move(advice),
                   .offset = offset};
  event.close = close;
  finish(std::move(event));
}

Bytes Startup::poll_transmit() {
  for (ConstBytes rest = transmit_; trace_ != nullptr && !rest.empty();) {
    const auto frame = wire::MpaFrameView::parse(rest);
    if (!frame) break;
    trace_frame(true, *frame);
    rest = rest.subspan(std::min(rest.size(), frame->frame_size()));
  }
  return std::exchange(transmit_, {});
}

void Startup::trace_frame(bool sent, const wire::MpaFrameView& frame) const {
  const std::string flags = set_of({{'M', frame.m()}, {'C', frame.c()}, {'R', frame.r()}, {'S', frame.s()}});
  std::string control;
  trace::MpaFrame event{.sent = sent,
                        .kind = kind_of(frame.key),
                        .flags = flags,
                        .revision = frame.revision,
                        .private_data = frame.pd_length};
  if (frame.revision >= 2 && frame.s() && frame.private_data.size() >= PARLEY_MPA_ENH_LEN) {
    const wire::MpaEnhanced e = *wire::MpaEnhanced::parse(frame.private_data);
    control = set_of({{'A', e.a}, {'B', e.b}, {'C', e.c}, {'D', e.d}});
    event.enhanced = true;
    event.ird = e.ird;
    event.ord = e.ord;
    event.control = control;
    event.private_data = static_cast<std::uint16_t>(frame.pd_length - PARLEY_MPA_ENH_LEN);
  }
  trace_->record(event);
}

std::optional<StartupEvent> Startup::poll_event() {
  if (event_) {
    std::optional<StartupEvent> event = std::move(event_);
    event_.reset();
    return event;
  }
  if (more_events_.empty()) return std::nullopt;
  std::optional<StartupEvent> event = std::move(more_events_.front());
  more_events_.erase(more_events_.begin());
  return event;
}

}  // namespace parley::mpa

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Streams: the listener, the octets of each stream, and when it is closed. Dials are in dials.cpp.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/after.hpp"
#include "base/text.hpp"
#include "cm/neg/guarded.hpp"
#include "cm/neg/peers_parts.hpp"

namespace parley::neg {
namespace {

std::string_view words_of(StreamEnd end) {
  switch (end) {
    case StreamEnd::fin: return "FIN";
    case StreamEnd::rst: return "RST";
    case StreamEnd::timeout: return "TCP gave up";
    case StreamEnd::delivered: return "last ACK";
  }
  return "the end";
}

}  // namespace

Peers::Peers(const Framework& framework, const PeersOptions& options)
    : framework_(framework),
      options_(options),
      retries_(options.seed),
      admission_(std::max(options.sessions_max, 2U), std::max(options.sessions_max, 2U) / 4) {}
Peers::~Peers() = default;

Outcome<void> Peers::listen(const Address& local, std::vector<Offer> offers) {
  if (listener_ != 0) return failed(Problem::configuration_error, "this side listens already");
  if (auto session = Session::respond({}, options_.session, Instant{}); !session)
    return tl::unexpected(session.error());
  for (const Offer& offer : offers) {
    const auto entry = framework_.find(offer.plugin, offer.variant);
    if (!entry) return tl::unexpected(entry.error());
    if ((*entry)->variant.framing == Framing::raw && offers.size() > 1)
      return failed(Problem::configuration_error,
                    fmt::format("{}/{} is offered together with others; its peers do not name a variant", offer.plugin,
                                offer.variant),
                    "listen for it alone, on a port of its own");
    // A trial: a wrong configuration is an error of listen(), not of each peer.
    if (auto made = framework_.make(offer.plugin, offer.variant, Role::responder, offer.config); !made)
      return tl::unexpected(made.error());
  }
  offers_ = std::move(offers);
  listener_ = next_stream_;
  next_stream_ += 2;
  listen_address_ = local;
  commands_.push_back({.kind = StreamCommand::Kind::listen, .id = listener_, .address = local});
  return {};
}

void Peers::stop_listening() {
  if (listener_ == 0) return;
  commands_.push_back({.kind = StreamCommand::Kind::close, .id = listener_});
  listener_ = 0;
}

void Peers::handle_listening(Instant now, StreamId, const Address& local) {
  record(options_.trace, now, trace::Listening{local});
  events_.push_back(Listening{local});
}

void Peers::handle_listen_failed(Instant now, StreamId, std::error_code why) {
  listener_ = 0;
  const cm::Failure said = cm::listen_failure(tcp_step, why, listen_address_);
  Failure failure{.problem = Problem::configuration_error, .text = said.code.message(), .advice = said.advice};
  record(options_.trace, now, trace::NegFailed{why_of(failure)});
  events_.push_back(ListenFailed{listen_address_, std::move(failure)});
}

// The trace of a session, or of a dial with all its attempts.
std::unique_ptr<Traced> Peers::begin_trace(const Address& local, const Address& peer) {
  if (options_.trace == nullptr) return nullptr;
  return std::make_unique<Traced>(*options_.trace, ++traced_, local, peer);
}

void Peers::trace_end(Instant now, Traced* trace, const Ended& ended) {
  if (ended.failure)
    record(trace, now, trace::NegFailed{why_of(*ended.failure)});
  else
    record(trace, now,
           trace::NegAgreed{.plugin = ended.request.plugin,
                            .variant = ended.request.variant,
                            .qps = ended.agreed.size(),
                            .attempts = ended.attempts});
}

std::optional<Peers::Event> Peers::poll_event() {
  if (events_.empty()) return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

// Adds the peer's address as `toward`, if the variant has that parameter and it is not set.
Config Peers::toward(const Framework::Entry& entry, Config config, const Address& peer) {
  const auto& has = entry.variant.parameters;
  if (std::any_of(has.begin(), has.end(), [](const Parameter& p) { return p.name == toward_parameter; }))
    config.try_emplace(std::string(toward_parameter), peer.to_string());
  return config;
}

Outcome<std::unique_ptr<Variant>> Peers::make(const Offer& offer, Role role, const Address& peer) const {
  const auto entry = framework_.find(offer.plugin, offer.variant);
  if (!entry) return tl::unexpected(entry.error());
  return framework_.make(offer.plugin, offer.variant, role, toward(**entry, offer.config, peer));
}

Outcome<std::unique_ptr<Variant>> Peers::choose(const Request& request, const Address& peer) const {
  if (offers_.empty()) {
    const auto entry = framework_.find(request.plugin, request.variant);
    if (entry && (*entry)->variant.framing == Framing::raw)
      return tl::unexpected(Failure{.problem = Problem::variant_not_available,
                                    .text = fmt::format("{}/{} has no Hello", request.plugin, request.variant),
                                    .advice = "its listener is one of its own"});
    return make({.plugin = request.plugin, .variant = request.variant}, Role::responder, peer);
  }
  std::vector<std::string> names;
  for (const Offer& offer : offers_) {
    if (offer.plugin == request.plugin && offer.variant == request.variant) return make(offer, Role::responder, peer);
    names.push_back(offer.plugin + "/" + offer.variant);
  }
  return tl::unexpected(
      Failure{.problem = Problem::variant_not_available,
              .text = fmt::format("{}/{} is not offered here", printable(request.plugin.substr(0, 64), false),
                                  printable(request.variant.substr(0, 64), false)),
              .advice = fmt::format("there {} {}", names.size() == 1 ? "is" : "are", fmt::join(names, ", "))});
}

Peers::Talk* Peers::talk(StreamId stream) {
  const auto at = talks_.find(stream);
  return at == talks_.end() ? nullptr : &at->second;
}

bool Peers::handle_accepted(Instant now, StreamId listener, StreamId stream, const StreamInfo& info) {
  if (listener != listener_) return false;
  const auto answer = admission_.arrive(info.peer, stream);
  if (answer.gave_way != 0) evict(now, answer.gave_way);
  if (!answer.ticket) {
    if (options_.trace != nullptr) {
      Traced newcomer(*options_.trace, 0, info.local, info.peer);
      record(&newcomer, now, trace::Refused{"sessions_max"});
    }
    return false;
  }
  std::unique_ptr<Traced> traced = begin_trace(info.local, info.peer);
  record(traced.get(), now, trace::NegStarted{.role = "responder"});
  SessionOptions session_options = options_.session;
  session_options.trace = traced.get();
  bool raw = false;
  if (offers_.size() == 1) {
    const auto entry = framework_.find(offers_[0].plugin, offers_[0].variant);
    raw = entry && (*entry)->variant.framing == Framing::raw;
  }
  Outcome<Session> session = tl::unexpected(Failure{});
  if (raw) {
    const Offer& offer = offers_[0];
    auto variant = make(offer, Role::responder, info.peer);
    if (variant)
      session = Session::raw(Role::responder, {.plugin = offer.plugin, .variant = offer.variant}, std::move(*variant),
                             session_options, now);
    else
      session = tl::unexpected(variant.error());
  } else {
    session = Session::respond([this, peer = info.peer](const Request& request) { return choose(request, peer); },
                               session_options, now);
  }
  if (!session) {
    admission_.leave(answer.ticket);
    events_.push_back(Ended{.local = info.local, .peer = info.peer, .failure = session.error()});
    record(traced.get(), now, trace::NegFailed{why_of(session.error())});
    return false;
  }
  Talk& talk = talks_.emplace(stream, Talk(stream, info, std::move(*session), now)).first->second;
  talk.ticket = answer.ticket;
  talk.trace = std::move(traced);
  ++accepted_;
  settle(now, talk);
  return true;
}

bool Peers::handle_no_room(Instant now, StreamId) {
  const cm::Admission::Owner owner = admission_.give_way();
  if (owner == 0) return false;
  evict(now, owner);
  return true;
}

// Ends a session whose peer has not sent a message yet, to make room for a newcomer.
void Peers::evict(Instant now, StreamId stream) {
  Talk* t = talk(stream);
  if (t == nullptr) return;
  t->ticket = {};
  record(t->trace.get(), now, trace::Evicted{.limit = "sessions_max", .waited = now - t->since});
  t->session.abort(
      now, {.problem = Problem::resource_exhaustion,
            .text = fmt::format("it gave way to another peer; {} at most", counted(options_.sessions_max, "session")),
            .advice = "raise sessions_max, or look for peers that connect and send nothing"});
  over(now, *t);
  drop(*t, StreamCommand::Kind::reset);
}

void Peers::handle_bytes(Instant now, StreamId stream, ConstBytes in) {
  Talk* t = talk(stream);
  if (t == nullptr || t->told) return;
  t->session.handle_bytes(now, in);
  settle(now, *t);
}

void Peers::handle_end(Instant now, StreamId stream, StreamEnd end) {
  if (Dialling* d = opening(stream); d != nullptr)
    return handle_connect_failed(now, stream, make_error_code(Errc::peer_reset));
  Talk* t = talk(stream);
  if (t == nullptr) return;
  t->peer_ended = true;
  t->gone = end != StreamEnd::fin;
  t->session.handle_end(now, words_of(end));
  settle(now, *t);
}

// Called after every input of a stream: queues the session's output, and handles its end.
void Peers::settle(Instant now, Talk& t) {
  const Bytes more = t.session.poll_transmit();
  if (!more.empty() && !t.gone) {
    t.out.insert(t.out.end(), more.begin(), more.end());
    if (!std::exchange(t.named, true)) ready_.push_back(t.stream);
  }
  if (t.session.heard() && t.ticket) admission_.hold(t.ticket);
  if (t.session.state() == Session::State::over && !t.told) over(now, t);
  leave(now, t);
}

// The session has ended: reports it once.
void Peers::over(Instant now, Talk& t) {
  t.told = true;
  t.leave_at = after(now, options_.linger);
  if (t.role == Role::initiator) {
    const auto at = dialling_.find(t.dial);
    if (at != dialling_.end()) dial_over(now, t, at->second);
    return;
  }
  --accepted_;
  if (t.ticket) admission_.leave(t.ticket);
  t.ticket = {};
  Ended ended{.local = t.info.local, .peer = t.info.peer, .request = t.session.request(), .took = now - t.since};
  if (t.session.failure() != nullptr) ended.failure = *t.session.failure();
  conclude(ended, t.session);
  trace_end(now, t.trace.get(), ended);
  events_.push_back(std::move(ended));
}

// Moves the session's results into `ended`. If the variant cannot return what was agreed, the session has failed on
// this side, although not for the peer.
void Peers::conclude(Ended& ended, Session& session) {
  ended.history = session.history();
  if (!ended.failure) {
    if (auto agreed = session.agreed())
      ended.agreed = std::move(*agreed);
    else
      ended.failure = std::move(agreed.error());
  }
  ended.variant = session.take_variant();
}

// Closes the stream when the session is over and nothing more is to be sent or received. Otherwise updates its
// deadline.
void Peers::leave(Instant now, Talk& t) {
  if (t.told) {
    const bool drained = t.out.size() == t.out_at;
    if (t.gone || (drained && t.peer_ended) || now >= t.leave_at)
      return drop(t, drained ? StreamCommand::Kind::close : StreamCommand::Kind::reset);
    if (drained && !std::exchange(t.shut, true))
      commands_.push_back({.kind = StreamCommand::Kind::shutdown, .id = t.stream});
  }
  const Instant at = t.told ? t.leave_at : t.session.next_deadline();
  if (at == t.deadline) return;
  talk_deadlines_.erase({t.deadline, t.stream});
  t.deadline = at;
  if (at != never) talk_deadlines_.insert({at, t.stream});
}

void Peers::drop(Talk& t, StreamCommand::Kind how) {
  if (!t.gone) commands_.push_back({.kind = how, .id = t.stream});
  talk_deadlines_.erase({t.deadline, t.stream});
  talks_.erase(t.stream);
}

void Peers::handle_deadline(Instant now) {
  while (!dial_deadlines_.empty() && dial_deadlines_.begin()->first <= now) {
    Dialling& d = dialling_.at(dial_deadlines_.begin()->second);
    due(d, never);
    if (d.stream == 0) {
      open(now, d);
      continue;
    }
    commands_.push_back({.kind = StreamCommand::Kind::reset, .id = d.stream});
    handle_connect_failed(now, d.stream, make_error_code(Errc::timed_out));
  }
  while (!talk_deadlines_.empty() && talk_deadlines_.begin()->first <= now) {
    Talk& t = talks_.at(talk_deadlines_.begin()->second);
    if (!t.told) t.session.handle_deadline(now);
    settle(now, t);
  }
}

Instant Peers::next_deadline() const {
  const auto first = [](const Deadlines& all) { return all.empty() ? never : all.begin()->first; };
  return std::min(first(dial_deadlines_), first(talk_deadlines_));
}

bool Peers::poll_command(StreamCommand& out) {
  if (commands_.empty()) return false;
  out = commands_.front();
  commands_.pop_front();
  return true;
}

StreamId Peers::poll_ready() {
  while (!ready_.empty()) {
    const StreamId stream = ready_.front();
    ready_.pop_front();
    Talk* t = talk(stream);
    if (t == nullptr) continue;
    t->named = false;
    return stream;
  }
  return 0;
}

std::size_t Peers::gather(StreamId stream, std::span<ConstBytes> out) {
  const Talk* t = talk(stream);
  if (t == nullptr || out.empty() || t->out_at == t->out.size()) return 0;
  out[0] = ConstBytes(t->out).subspan(t->out_at);
  return 1;
}

void Peers::sent(Instant now, StreamId stream, std::size_t n) {
  Talk* t = talk(stream);
  if (t == nullptr) return;
  t->out_at = std::min(t->out_at + n, t->out.size());
  if (t->out_at < t->out.size()) return;
  t->out.clear();
  t->out_at = 0;
  leave(now, *t);
}

}  // namespace parley::neg

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Dials: each attempt, the retry after it, and the one Ended of the dial.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/after.hpp"
#include "base/text.hpp"
#include "cm/neg/guarded.hpp"
#include "cm/neg/peers_parts.hpp"

namespace parley::neg {
namespace {

/// The failure as cm::Retries needs it: a lost or silent connection before the end of the stage info may be temporary.
cm::Failure judged(const Failure& why) {
  cm::Failure out{.step = {.stage = cm::Stage::request}};
  const bool early = why.stage <= Stage::info && !why.by_peer;
  if (early && why.problem == Problem::connection_timeout) out.code = make_error_code(Errc::timed_out);
  if (early && why.problem == Problem::connection_lost) out.code = make_error_code(Errc::peer_closed);
  return out;
}

/// In place of a variant that could not be made: the session's Abort carries the reason to the server.
class FailedVariant final : public Variant {
 public:
  explicit FailedVariant(Failure why) : why_(std::move(why)) {}
  Outcome<Turn> exchange(Stage, std::optional<ConstBytes>) override { return tl::unexpected(why_); }

 private:
  Failure why_;
};

}  // namespace

Outcome<Peers::DialId> Peers::dial(Instant now, Dial dial) {
  cm::ConnectOptions options;
  options.retry = dial.retry;
  options.backups = dial.backups;
  if (const auto checked = cm::Retries::check(options); !checked)
    return failed(Problem::configuration_error, checked.error().message());
  if (dial.server.port == 0 || dial.server.is_any())
    return failed(Problem::configuration_error,
                  fmt::format("{} is not an address of a server", dial.server.to_string()));
  if (dial.connect_timeout < Duration{})
    return failed(Problem::configuration_error, "Dial::connect_timeout is negative; 0 is the system's");
  if (const auto sane = Session::respond({}, dial.session, now); !sane) return tl::unexpected(sane.error());
  const auto entry = framework_.find(dial.request.plugin, dial.request.variant);
  if (!entry) return tl::unexpected(entry.error());
  auto variant = make({dial.request.plugin, dial.request.variant, dial.config}, Role::initiator, dial.server);
  if (!variant) return tl::unexpected(variant.error());
  const DialId id = next_dial_++;
  retries_.plan(id, dial.server, options);
  Dialling& d = dialling_[id];
  d.id = id;
  d.at = dial.server;
  d.since = now;
  d.variant = std::move(*variant);
  d.framing = (*entry)->variant.framing;
  d.dial = std::move(dial);
  d.trace = begin_trace({}, d.at);
  d.dial.session.trace = d.trace.get();
  record(d.trace.get(), now,
         trace::NegStarted{.role = "initiator", .plugin = d.dial.request.plugin, .variant = d.dial.request.variant});
  open(now, d);
  return id;
}

void Peers::due(Dialling& d, Instant at) {
  if (d.deadline != never) dial_deadlines_.erase({d.deadline, d.id});
  d.deadline = at;
  if (at != never) dial_deadlines_.insert({at, d.id});
}

void Peers::open(Instant now, Dialling& d) {
  record(d.trace.get(), now, trace::NegStage{d.attempts == 0 ? "none" : "waiting", "opening"});
  ++d.attempts;
  d.stream = next_stream_;
  next_stream_ += 2;
  openings_[d.stream] = d.id;
  const Duration limit = d.dial.connect_timeout;
  due(d, limited(now, limit));
  commands_.push_back({.kind = StreamCommand::Kind::open, .id = d.stream, .address = d.at});
}

Peers::Dialling* Peers::opening(StreamId stream) {
  const auto at = openings_.find(stream);
  return at == openings_.end() ? nullptr : &dialling_.at(at->second);
}

Outcome<Session> Peers::begin(Instant now, Dialling& d) {
  auto variant = std::move(d.variant);
  if (!variant) {
    auto made = make({d.dial.request.plugin, d.dial.request.variant, d.dial.config}, Role::initiator, d.at);
    if (!made && d.framing == Framing::raw) return tl::unexpected(made.error());
    variant = made ? std::move(*made) : std::make_unique<FailedVariant>(std::move(made.error()));
  }
  return d.framing == Framing::raw
             ? Session::raw(Role::initiator, d.dial.request, std::move(variant), d.dial.session, now)
             : Session::initiate(d.dial.request, std::move(variant), d.dial.session, now);
}

void Peers::handle_connected(Instant now, StreamId stream, const StreamInfo& info) {
  Dialling* d = opening(stream);
  if (d == nullptr) {
    commands_.push_back({.kind = StreamCommand::Kind::reset, .id = stream});
    return;
  }
  openings_.erase(stream);
  d->stream = 0;
  due(*d, never);
  if (d->trace) d->trace->local = info.local;
  auto session = begin(now, *d);
  if (!session) {
    commands_.push_back({.kind = StreamCommand::Kind::reset, .id = stream});
    return finish(now, *d, std::move(session.error()), nullptr);
  }
  Talk& t = talks_.emplace(stream, Talk(stream, info, std::move(*session), now)).first->second;
  t.role = Role::initiator;
  t.dial = d->id;
  settle(now, t);
}

void Peers::handle_connect_failed(Instant now, StreamId stream, std::error_code why) {
  Dialling* d = opening(stream);
  if (d == nullptr) return;
  openings_.erase(stream);
  d->stream = 0;
  due(*d, never);
  const cm::Failure said = cm::system_failure(tcp_step, why, d->at);
  const bool late = said.code == make_error_code(Errc::timed_out);
  Failure failure{.problem = late ? Problem::connection_timeout : Problem::server_unreachable,
                  .text = fmt::format("{}: {}", d->at.to_string(), said.code.message()),
                  .advice = said.advice};
  attempt_failed(now, *d, std::move(failure), said, nullptr);
}

void Peers::dial_over(Instant now, Talk& t, Dialling& d) {
  if (t.session.completed()) return finish(now, d, std::nullopt, &t.session);
  attempt_failed(now, d, *t.session.failure(), judged(*t.session.failure()), &t.session);
}

void Peers::attempt_failed(Instant now, Dialling& d, Failure why, const cm::Failure& judged, Session* session) {
  const auto again = retries_.next(d.id, judged, now);
  if (!again) return finish(now, d, std::move(why), session);
  record(
      d.trace.get(), now,
      trace::NegRetrying{.next = again->peer, .backup = again->peer != d.at, .wait = again->wait, .why = why_of(why)});
  if (d.trace) d.trace->peer = again->peer;
  events_.push_back(Retrying{d.id, std::move(why), d.at, again->peer, again->wait});
  if (d.at != again->peer) d.variant.reset();  // it was made for the previous address
  d.at = again->peer;
  if (again->wait <= Duration{}) return open(now, d);
  due(d, std::min(after(now, again->wait), never - Duration(1)));
}

void Peers::finish(Instant now, Dialling& d, std::optional<Failure> failure, Session* session) {
  retries_.forget(d.id);
  Ended ended{.dial = d.id,
              .peer = d.at,
              .request = d.dial.request,
              .failure = std::move(failure),
              .attempts = d.attempts,
              .took = now - d.since};
  if (session != nullptr) conclude(ended, *session);
  trace_end(now, d.trace.get(), ended);
  dialling_.erase(d.id);
  events_.push_back(std::move(ended));
}

}  // namespace parley::neg

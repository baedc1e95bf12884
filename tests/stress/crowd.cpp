// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tests/stress/crowd.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "cm/provider.hpp"
#include "cm/providers/iwarp/iwarp.hpp"

namespace parley::stress {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t wrong_max = 100;
/// An id is kept for a while after its end: a second one would still be told.
constexpr Duration aftermath = 20ms;
constexpr Duration short_limit = 150ms;  // for what never comes
constexpr std::uint8_t reject_me = 'r', accept_me = 'a';

constexpr std::array<std::string_view, kind_count> kind_names = {
    "good", "dropped", "rejected", "backup", "refused", "stalled", "reset", "nonsense", "flooded", "abandoned", "raw"};
/// Of a hundred connections.
constexpr std::array<std::uint32_t, kind_count> weights = {35, 8, 8, 6, 5, 5, 6, 6, 5, 6, 10};

/// The one outcome that a kind may have.
Outcome due(Kind kind) {
  switch (kind) {
    case Kind::good:
    case Kind::dropped:
    case Kind::backup:
    case Kind::flooded: return Outcome::established;
    case Kind::rejected: return Outcome::rejected;
    case Kind::abandoned: return Outcome::none;
    default: return Outcome::failed;
  }
}

Kind draw(Rng& rng) {
  std::uint64_t at = rng.below(100);
  for (std::size_t i = 0; i < kind_count; ++i) {
    if (at < weights[i]) return static_cast<Kind>(i);
    at -= weights[i];
  }
  return Kind::good;
}

template <class T>
T must(Result<T> result, const char* what) {
  if (!result) throw std::runtime_error(std::string(what) + ": " + result.error().message());
  return std::move(*result);
}

}  // namespace

std::string_view to_string(Kind kind) { return kind_names[static_cast<std::size_t>(kind)]; }

Crowd::Crowd(std::uint32_t total, std::uint32_t at_once, std::uint64_t seed)
    : total_(total), at_once_(at_once), rng_(seed) {
  TcpHostOptions options;
  options.manager.seed = rng_.next();
  host_ = must(TcpHost::open(options), "TcpHost::open");
  raw_ = std::make_unique<RawPeers>(rng_.next());
  listen();
}

Crowd::~Crowd() = default;

void Crowd::listen() {
  cm::ListenOptions options;
  options.pending_max = 2 * at_once_ + 64;
  const auto open = [this](const cm::ListenOptions& how, std::uint16_t& port) {
    const cm::Id id = must(host_->cm().listen(Address::any(Address::Family::v4, 0), how), "listen");
    while (port == 0) {
      host_->run_once(100ms);
      while (auto event = host_->cm().poll_event())
        if (const auto* listening = std::get_if<cm::Listening>(&*event)) port = listening->local.port;
    }
    return id;
  };
  patient_ = open(options, patient_port_);
  mpa::Options strict;
  strict.timeouts = {.request = short_limit, .reply = short_limit, .rtr = short_limit, .first_fpdu = short_limit};
  options.transport = strict;
  impatient_ = open(options, impatient_port_);
}

std::size_t Crowd::endpoints() const {
  return dynamic_cast<cm::IwarpProvider&>(host_->cm().provider()).endpoint_count();
}

void Crowd::again(std::uint64_t seed) {
  rng_ = Rng(seed);
  started_ = 0;
}

void Crowd::complain(std::string text) {
  if (wrong_.size() < wrong_max) wrong_.push_back(std::move(text));
}

void Crowd::start_more() {
  while (started_ < total_ && initiators_.size() + raw_->open() < at_once_) {
    ++started_;
    start(draw(rng_));
  }
}

void Crowd::start(Kind kind) {
  ++begun_[static_cast<std::size_t>(kind)];
  if (kind == Kind::raw) return raw_->connect(static_cast<Client>(rng_.below(client_count)), server(impatient_port_));
  mpa::Options mpa;
  constexpr std::array forms = {mpa::Rtr::send, mpa::Rtr::write, mpa::Rtr::read};
  mpa.rtr = forms[rng_.below(forms.size())];
  cm::ConnectOptions options;
  const std::uint8_t wish = kind == Kind::rejected ? reject_me : accept_me;
  options.private_data = {&wish, 1};
  Address to = server(patient_port_);
  switch (kind) {
    case Kind::backup:
      to.port = raw_->nobody();
      options.backups = {server(raw_->nobody()), server(patient_port_)};
      break;
    case Kind::refused:
      to.port = raw_->nobody();
      options.retry = {.rounds = 2, .first = 5ms};
      break;
    case Kind::abandoned:
    case Kind::stalled:
      to.port = raw_->port(Server::stalls);
      if (kind == Kind::stalled) mpa.timeouts.reply = short_limit;
      break;
    case Kind::reset: to.port = raw_->port(Server::resets); break;
    case Kind::nonsense: to.port = raw_->port(Server::garbage); break;
    case Kind::flooded:
      to.port = raw_->port(Server::floods);
      mpa.revision = 1;
      mpa.rtr_fallback = mpa.rtr;  // its first FPDU, which a Reply of revision 1 cannot ask for
      break;
    default: break;
  }
  options.transport = mpa;
  const cm::Id id = must(host_->cm().connect(to, options), "connect");
  Initiator& made = initiators_[id.number()];
  made.kind = kind;
  made.id = id;
  if (kind == Kind::abandoned)
    made.destroy_at = host_->now() + Duration(static_cast<Duration::rep>(rng_.below(20'000'000)));
}

void Crowd::on(const cm::ConnectRequest& e) {
  Responder& made = responders_[e.id.number()];
  if (made.id) complain(fmt::format("a second ConnectRequest of id {}", e.id.number()));
  made.id = e.id;
  ++accepted_;
  const bool reject = e.private_data.size() == 1 && e.private_data[0] == reject_me;
  if (!reject) {
    if (const auto done = made.id.accept(); !done) complain("accept: " + done.error().message());
    return;
  }
  if (const auto done = made.id.reject(); !done) complain("reject: " + done.error().message());
  ++made.ends;  // nothing is told of it any more
  made.destroy_at = host_->now() + aftermath;
}

void Crowd::on(const cm::Established& e) {
  if (const auto at = responders_.find(e.id.number()); at != responders_.end()) {
    if (std::exchange(at->second.established, true)) complain("a responder was notified of Established twice");
    return;
  }
  outcome(e.id, Outcome::established, nullptr);
  const auto at = initiators_.find(e.id.number());
  if (at == initiators_.end()) return;
  Initiator& i = at->second;
  if (i.kind == Kind::dropped) {
    i.destroy_at = host_->now();
    ++i.ends;
  } else if (i.kind != Kind::flooded) {
    if (const auto closing = i.id.disconnect(); !closing) complain("disconnect: " + closing.error().message());
  }
}

void Crowd::outcome(cm::Id id, Outcome outcome, const cm::Failure* why) {
  const auto at = initiators_.find(id.number());
  if (at == initiators_.end()) return complain(fmt::format("an outcome of id {}, which is none of ours", id.number()));
  Initiator& i = at->second;
  if (++i.outcomes > 1) complain(fmt::format("{}: a second outcome", to_string(i.kind)));
  i.outcome = outcome;
  if (outcome != due(i.kind))
    complain(fmt::format("{}: {}", to_string(i.kind), why != nullptr ? why->to_string("the peer") : "established"));
  if (outcome != Outcome::established) end(id, false);
}

void Crowd::end(cm::Id id, bool graceful) {
  const Instant later = host_->now() + aftermath;
  if (const auto at = initiators_.find(id.number()); at != initiators_.end()) {
    ++at->second.ends;
    at->second.graceful = graceful;
    at->second.destroy_at = later;
  } else if (const auto other = responders_.find(id.number()); other != responders_.end()) {
    ++other->second.ends;
    other->second.destroy_at = later;
  }
}

void Crowd::poll() {
  while (auto event = host_->cm().poll_event()) {
    if (const auto* request = std::get_if<cm::ConnectRequest>(&*event)) {
      on(*request);
    } else if (const auto* up = std::get_if<cm::Established>(&*event)) {
      on(*up);
    } else if (const auto* rejected = std::get_if<cm::Rejected>(&*event)) {
      outcome(rejected->id, Outcome::rejected, &rejected->why);
    } else if (const auto* failed = std::get_if<cm::ConnectFailed>(&*event)) {
      if (!failed->responder)
        outcome(failed->id, Outcome::failed, &failed->why);
      else
        end(failed->id, false);  // of raw peers that failed before their Request nothing is known here
    } else if (const auto* down = std::get_if<cm::Disconnected>(&*event)) {
      end(down->id, down->graceful);
    } else if (const auto* away = std::get_if<cm::TurnedAway>(&*event)) {
      complain("there was room for all: " + away->why.to_string("the peer"));
    }
  }
}

void Crowd::judge(const Initiator& i) {
  if (i.kind == Kind::abandoned ? i.outcomes != 0 : i.outcomes != 1)
    complain(fmt::format("{}: {} outcomes", to_string(i.kind), i.outcomes));
  if (i.ends != (i.kind == Kind::abandoned ? 0U : 1U)) complain(fmt::format("{}: {} ends", to_string(i.kind), i.ends));
  const bool graceful = i.kind == Kind::good || i.kind == Kind::backup;
  if (i.graceful != graceful)
    complain(fmt::format("{}: its end was {}graceful", to_string(i.kind), i.graceful ? "" : "not "));
}

void Crowd::judge(const Responder& r) {
  if (r.ends != 1) complain(fmt::format("a responder's connection had {} ends", r.ends));
}

/// Destroys what is due, and judges it.
void Crowd::tend() {
  const Instant now = host_->now();
  for (auto at = initiators_.begin(); at != initiators_.end();) {
    if (at->second.destroy_at > now) {
      ++at;
      continue;
    }
    judge(at->second);
    at->second.id.destroy();
    at = initiators_.erase(at);
  }
  for (auto at = responders_.begin(); at != responders_.end();) {
    if (at->second.destroy_at > now) {
      ++at;
      continue;
    }
    judge(at->second);
    at->second.id.destroy();
    at = responders_.erase(at);
  }
}

bool Crowd::over() const {
  return started_ == total_ && initiators_.empty() && responders_.empty() && raw_->open() == 0 && endpoints() == 2;
}

void Crowd::run(Duration limit) {
  const Instant end_at = host_->now() + limit;
  while (!over()) {
    if (host_->now() >= end_at) {
      complain(fmt::format("after {} s: {} of {} begun, {} raw peers and {} endpoints left", limit / 1s, started_,
                           total_, raw_->open(), endpoints()));
      for (const auto& [number, i] : initiators_)
        complain(fmt::format("{} is not over: {} outcomes, {} ends", to_string(i.kind), i.outcomes, i.ends));
      return;
    }
    start_more();
    host_->run_once(1ms);
    poll();
    raw_->turn();
    tend();
  }
}

}  // namespace parley::stress

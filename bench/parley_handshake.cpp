// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "bench/parley_peer.hpp"

namespace parley::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::array<std::uint8_t, 16> private_data{'p', 'a', 'r', 'l', 'e', 'y'};

constexpr std::uint32_t addresses = 200;  // as in the raw program

Address loopback(std::uint16_t port, std::uint32_t turn) {
  return Address::v4(127, 0, 0, static_cast<std::uint8_t>(1 + turn % addresses), port);
}

/// Both ends in one TcpHost on the calling thread.
class ParleyHandshakes {
 public:
  explicit ParleyHandshakes(const HandshakeForm& form, Tap tap = {})
      : form_(form), host_(must(TcpHost::open({}), "TcpHost::open")) {
    if (tap) host_->set_tap(std::move(tap));
    const cm::ListenOptions options{.transport = form_.responder, .backlog = 4096};
    must(host_->cm().listen(Address::any(Address::Family::v4, 0), options), "listen");
    while (port_ == 0) turn();
    if (form_.initiator.rtr == mpa::Rtr::frame) meet_all_peers();
  }

  std::uint16_t port() const { return port_; }

  Sample connect_and_close(double seconds) {
    close_when_done_ = true;
    const Stopwatch watch;
    for (int i = 0; i < in_flight; ++i) start();
    while (watch.wall_s() < seconds) turn();
    return watch.stop(static_cast<double>(done()));
  }

  Sample keep_open(long n) {
    to_start_ = n;
    const long before = done();
    const Stopwatch watch;
    for (int i = 0; i < in_flight; ++i) start();
    while (done() - before < n) turn();
    const Sample sample = watch.stop(static_cast<double>(done() - before));
    // A Read Response may still be on its way.
    for (int i = 0; i < 3; ++i) host_->run_once(0ms);
    return sample;
  }

 private:
  /// After the first Rtr frame to a peer, Parley checks for a while whether the peer only echoed the S flag
  /// (docs/mpa-rtr.md). That is a wait, not work, and happens once for each address, so it is done before the
  /// measurement.
  void meet_all_peers() {
    keep_ids_ = true;
    keep_open(addresses);
    for (auto& id : ids_) id.destroy();
    ids_.clear();
    responders_.clear();
    keep_ids_ = false;
    initiators_up_ = responders_up_ = 0;
    turn_ = 0;
    for (int i = 0; i < 3; ++i) host_->run_once(0ms);
  }

  /// Connections established at both ends. Without an RTR the responder is established only at the first message, which
  /// never comes, so only the initiator counts.
  long done() const { return form_.octets.rtr > 0 ? std::min(initiators_up_, responders_up_) : initiators_up_; }

  void start() {
    if (!close_when_done_ && to_start_-- <= 0) return;
    must(host_->cm().connect(loopback(port_, turn_++), {.transport = form_.initiator, .private_data = private_data}),
         "connect");
  }

  void turn() {
    host_->run_once(100ms);
    while (auto event = host_->cm().poll_event()) std::visit([this](auto& e) { on(e); }, *event);
  }

  void on(const cm::Listening& e) { port_ = e.local.port; }
  void on(const cm::ConnectRequest& e) {
    responders_.insert(e.id.number());
    cm::Id id = e.id;
    must(id.accept({.private_data = private_data}), "accept");
  }
  void on(const cm::Established& e) {
    if (keep_ids_) ids_.push_back(e.id);
    const bool responder = responders_.contains(e.id.number());
    ++(responder ? responders_up_ : initiators_up_);
    if (responder) return;
    cm::Id id = e.id;
    if (close_when_done_) {
      must(id.disconnect(), "disconnect");
    } else {
      start();
    }
  }
  void on(const cm::Disconnected& e) {
    cm::Id id = e.id;
    id.destroy();
    if (responders_.erase(e.id.number()) == 0) start();
  }
  void on(const cm::Rejected& e) { throw std::runtime_error("rejected: " + e.why.to_string()); }
  void on(const cm::ConnectFailed& e) {
    // Without an RTR the responder waits for the initiator's first message (RFC 5044 §7.1.2 rule 4), and an initiator
    // that closes at once never sends one.
    const bool closed_early = close_when_done_ && form_.octets.rtr == 0 && e.why.code == Errc::peer_closed;
    if (!e.responder || !closed_early) throw std::runtime_error("connection failed: " + e.why.to_string());
    cm::Id id = e.id;
    id.destroy();
    responders_.erase(e.id.number());
  }
  void on(const cm::TurnedAway& e) { throw std::runtime_error("no room for all: " + e.why.to_string()); }
  void on(const cm::AddressChanged& e) { throw std::runtime_error(e.why.to_string()); }
  void on(const cm::DeviceRemoved& e) { throw std::runtime_error(e.why.to_string()); }
  void on(const cm::UserEvent&) {}
  void on(const cm::Resolved&) {}
  void on(const cm::TimewaitExit&) {}
  void on(const cm::Retrying& e) { throw std::runtime_error("had to retry: " + e.why.to_string()); }

  HandshakeForm form_;
  std::unique_ptr<TcpHost> host_;
  std::uint16_t port_ = 0;
  std::uint32_t turn_ = 0;
  bool close_when_done_ = false;
  long to_start_ = 0;
  long initiators_up_ = 0, responders_up_ = 0;
  bool keep_ids_ = false;
  std::vector<cm::Id> ids_;
  std::unordered_set<std::uint64_t> responders_;
};

}  // namespace

std::vector<HandshakeForm> handshake_forms() {
  // Octets of the RTRs: the Rtr frame is a startup frame without private data; an FPDU is length, DDP and RDMAP header,
  // pad and CRC (RFC 5044 §4.1): tagged 20, untagged 24, Read Request 52, and 20 for the Read Response.
  struct RtrSize {
    mpa::Rtr rtr;
    std::size_t octets, response;
  };
  constexpr RtrSize sizes[] = {{mpa::Rtr::read, 52, 20}, {mpa::Rtr::send, 24, 0}, {mpa::Rtr::write, 20, 0}};

  std::vector<HandshakeForm> forms;
  const mpa::Options v1{.revision = 1};
  forms.push_back({"v1 classic", v1, v1, {.request = 36, .reply = 36}});
  forms.push_back({"v2", {}, {}, {.request = 40, .reply = 40}});
  mpa::Options framed = v1;
  framed.rtr = mpa::Rtr::frame;
  framed.rtr_by_s = true;
  forms.push_back({"v1 S, Rtr frame", framed, v1, {.request = 36, .reply = 36, .rtr = 20}});
  for (const auto& size : sizes) {
    mpa::Options initiator = v1, responder = v1;
    initiator.rtr = size.rtr;
    initiator.rtr_fallback = size.rtr;
    responder.rtr_expected = size.rtr;
    forms.push_back({fmt::format("v1 configured, 0B {}", to_string(size.rtr)),
                     initiator,
                     responder,
                     {.request = 36, .reply = 36, .rtr = size.octets, .response = size.response}});
  }
  for (const auto& size : sizes) {
    forms.push_back({fmt::format("v2 A, 0B {}", to_string(size.rtr)),
                     {.rtr = size.rtr},
                     {},
                     {.request = 40, .reply = 40, .rtr = size.octets, .response = size.response}});
  }
  return forms;
}

void check_octets(const HandshakeForm& form) {
  std::size_t to_responder = 0, to_initiator = 0;
  std::uint16_t port = 0;
  {
    ParleyHandshakes one(form, [&](const TapRecord& record) {
      if (record.kind != TapRecord::Kind::sent) return;
      (record.peer.port == port ? to_responder : to_initiator) += record.octets.size();
    });
    port = one.port();
    to_responder = to_initiator = 0;
    one.keep_open(1);
  }
  const std::size_t forth = form.octets.request + form.octets.rtr, back = form.octets.reply + form.octets.response;
  if (to_responder != forth || to_initiator != back) {
    throw std::runtime_error(fmt::format("{}: {} and {} octets on the wire, the limit sends {} and {}", form.name,
                                         to_responder, to_initiator, forth, back));
  }
}

Sample parley_connect_and_close(const HandshakeForm& form, double seconds) {
  return ParleyHandshakes(form).connect_and_close(seconds);
}

Sample parley_keep_open(const HandshakeForm& form, long n, long more) {
  ParleyHandshakes handshakes(form);
  const Sample first = handshakes.keep_open(n);
  return more == 0 ? first : handshakes.keep_open(more);
}

}  // namespace parley::bench

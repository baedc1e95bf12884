// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Sets up TGT queue pairs in band: an XRC REQ of a peer makes one, its DREQ lets it drain, and a SIDR_REQ is told the number of a
// process's shared receive queue. The service is registered with each like any process, for as long as its peer is there, and so
// they outlive every other.
#pragma once
#include <functional>
#include <map>

#include "parley/cm.hpp"
#include "xrc/attachment.hpp"

namespace parley::xrc {

struct ServiceOptions {
  Address local{};  ///< with the port, of TCP's port space for REQs and of UDP's for SIDR_REQs
  cm::ListenOptions listen{};
  /// The queue of which process: none, and the peer is told that there is no such.
  std::function<std::optional<std::uint32_t>(std::uint32_t which)> srqn{};
  /// A new one receives: whoever wants it attaches itself.
  std::function<void(TgtId, const Peer&)> on_up{};
};

class Service {
 public:
  /// Both outlive it; the attachment is the service's own.
  Service(cm::Manager& manager, Attachment& attachment, ServiceOptions options)
      : manager_(manager), attachment_(attachment), options_(std::move(options)) {}
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Errors: those of cm::Manager::listen.
  Result<void> start();
  /// False: the event is about nothing of the service's, or is the program's to know: that its listeners fail (ConnectFailed), or
  /// have turned somebody away (TurnedAway).
  bool handle(const cm::Event& event);
  /// Its process was killed: what it held is let go by whoever notices that, and it does nothing more.
  void abandon();
  /// TGT queue pairs that it holds.
  std::size_t held() const { return held_.size(); }

 private:
  struct Held {
    cm::Id id;
    TgtId tgt;
    Peer peer;
  };
  bool on_request(const cm::ConnectRequest& request);
  void set_up(const cm::ConnectRequest& request);
  void tell_srqn(const cm::ConnectRequest& request);
  void on_established(Held& held);
  void let_go(std::uint64_t number, EventKind kind);

  cm::Manager& manager_;
  Attachment& attachment_;
  ServiceOptions options_;
  cm::Id requests_, questions_;
  std::map<std::uint64_t, Held> held_;  // by the id's number; as many as the listener's bound and the registry allow
  std::map<std::uint64_t, cm::Id> answering_;  // SIDR; the listener's bound
};

}  // namespace parley::xrc

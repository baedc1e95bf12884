// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Sets up TGT queue pairs in band: an XRC REQ of a peer creates one, its DREQ makes it drain, and a SIDR_REQ asks for the number of
// a process's shared receive queue. The service registers with each TGT queue pair like any process, as long as the peer exists, so
// that it outlives all other registrations.
#pragma once
#include <functional>
#include <map>

#include "parley/cm.hpp"
#include "xrc/attachment.hpp"

namespace parley::xrc {

struct ServiceOptions {
  Address local{};  ///< with the port: TCP's port space for REQs, UDP's for SIDR_REQs
  cm::ListenOptions listen{};
  /// The queue of process `which`; none: the peer is informed that there is none.
  std::function<std::optional<std::uint32_t>(std::uint32_t which)> srqn{};
  /// A new queue pair receives: processes may now attach to it.
  std::function<void(TgtId, const Peer&)> on_up{};
};

class Service {
 public:
  /// Both must outlive it; the attachment is used by the service only.
  Service(cm::Manager& manager, Attachment& attachment, ServiceOptions options)
      : manager_(manager), attachment_(attachment), options_(std::move(options)) {}
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Errors: those of cm::Manager::listen.
  Result<void> start();
  /// False: the event does not belong to the service, or the program must handle it: a failed listener (ConnectFailed), or peers
  /// turned away (TurnedAway).
  bool handle(const cm::Event& event);
  /// The process was killed: its registrations are released by whatever detects that, and the service does nothing more.
  void abandon();
  /// TGT queue pairs with a registration of the service.
  std::size_t held() const { return held_.size(); }

 private:
  struct TgtConnection {
    cm::Id id;
    TgtId tgt;
    Peer peer;
  };
  bool on_request(const cm::ConnectRequest& request);
  void set_up(const cm::ConnectRequest& request);
  void answer_srqn(const cm::ConnectRequest& request);
  void on_established(TgtConnection& held);
  void release(std::uint64_t number, EventKind kind);

  cm::Manager& manager_;
  Attachment& attachment_;
  ServiceOptions options_;
  cm::Id requests_, questions_;
  std::map<std::uint64_t, TgtConnection> held_;  // by the id's number; bounded by the listener and the registry
  std::map<std::uint64_t, cm::Id> answering_;    // SIDR; bounded by the listener
};

}  // namespace parley::xrc

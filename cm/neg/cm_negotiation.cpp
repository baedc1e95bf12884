// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/neg/cm_negotiation.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/after.hpp"
#include "base/gid.hpp"
#include "cm/neg/guarded.hpp"
#include "cm/neg/variants/device_qp.hpp"
#include "cm/neg/variants/manual_driver.hpp"

namespace parley::neg {
namespace {

constexpr Duration leave_within = std::chrono::seconds(2);  // for the peer's half of the disconnect
constexpr std::uint32_t second_rounds = 20;                 // perftest's server listens again for the second connection
Request what_it_is() { return {.plugin = "parley", .variant = "perftest"}; }

/// The second connection's queue pair, for DeviceQp.
class CmLinkEnvironment final : public QpEnvironment {
 public:
  explicit CmLinkEnvironment(TestLink& link) : link_(link), device_(*link.id.device()) {}
  Device& device() override { return device_; }
  Outcome<void> reach(const AhAttr&) override { return {}; }
  void work(Duration) override {}  // the caller runs the host's turns
  Instant now() const override { return link_.now; }
  bool connects() const override { return true; }
  Result<QueuePair*> make_qp(const QpInit& init) override;
  void drop_qp() override { link_.id.destroy(); }

 private:
  TestLink& link_;
  Device& device_;
};

Result<QueuePair*> CmLinkEnvironment::make_qp(const QpInit& init) {
  if (link_.role == Role::responder) return link_.id.create_qp(init);
  const auto connecting = link_.id.connect(
      {.ird = static_cast<std::uint16_t>(number_of(link_.config, "ird")),
       .ord = static_cast<std::uint16_t>(number_of(link_.config, "ord")),
       .qp = init,
       .timeout = link_.timeout,
       .retry = {
           .rounds = second_rounds, .first = std::chrono::milliseconds(50), .cap = std::chrono::milliseconds(500)}});
  if (!connecting) return tl::unexpected(connecting.error());
  if (link_.id.qp() != nullptr) return link_.id.qp();
  return fail(Errc::unsupported, "the queue pair is made too late to post receives");
}

class LinkDriver final : public QpDriver {
 public:
  LinkDriver(std::shared_ptr<TestLink> link, const Config& config) : link_(std::move(link)), config_(config) {}
  // The queue pair does not exist yet; its number here is a placeholder, the lowest one possible.
  Outcome<QpAttributes> open() override {
    return QpAttributes{.qpn = 2, .mtu = static_cast<std::uint32_t>(number_of(config_, "mtu"))};
  }
  std::string where() const override {
    return link_ && link_->id.device() != nullptr
               ? fmt::format("{}, {}, connected by rdma_cm", link_->id.device()->query().name, link_->local.to_string())
               : std::string();
  }
  bool connects() const override { return true; }
  Outcome<std::optional<QpConnected>> connect() override {
    link_->config = config_;
    return link_->connect();
  }
  Outcome<void> to_rtr(const QpPair& pair) override { return link_->qp->to_rtr(pair); }
  Outcome<void> to_rts(const QpPair& pair) override { return link_->qp->to_rts(pair); }
  DataPath* path() override { return link_ && link_->qp ? link_->qp->path() : nullptr; }

 private:
  std::shared_ptr<TestLink> link_;  // null: only a trial of the configuration
  Config config_;
};

Failure failure_of(const cm::Failure& why, const Address& peer) {
  return {.problem = Problem::server_unreachable, .text = why.to_string(peer.to_string())};
}

bool same_host(const Address& a, const Address& b) { return a.family == b.family && a.octets == b.octets; }

}  // namespace

Outcome<std::optional<QpConnected>> TestLink::connect() {
  if (!std::exchange(wanted, true)) {
    if (role == Role::initiator) {
      auto found = manager.resolve(peer, {.timeout = timeout});
      if (!found) return device_failed("the connection of the test", found.error());
      id = *found;
    } else if (id) {
      make();
    }
  }
  if (failure) return tl::unexpected(*failure);
  if (!up) return std::nullopt;
  QpConnected out{.local = own};
  out.local.gid = gid_of(local);
  if (const auto address = id.peer_address()) out.peer_gid = gid_of(*address);
  return out;
}

void TestLink::make() {
  const DeviceQpOptions options{.own = {.gid = {}, .mtu = 4096}};
  auto made = make_device_qp(std::make_unique<CmLinkEnvironment>(*this), options, config);
  if (made) qp = std::move(*made);
  const auto opened = made ? qp->open() : tl::unexpected(made.error());
  if (!opened) {
    failure = opened.error();
    return;
  }
  own = *opened;
  if (role == Role::initiator) return;
  const auto accepted = id.accept({.ird = static_cast<std::uint16_t>(number_of(config, "ird")),
                                   .ord = static_cast<std::uint16_t>(number_of(config, "ord"))});
  if (!accepted) failure = device_failed("accept", accepted.error()).value();
}

void TestLink::established() {
  if (const auto address = id.local_address()) local = *address;
  up = true;
}

void TestLink::fail(const cm::Failure& why) {
  if (failure || up) return;  // if it was up, completions report the failure
  failure = Failure{.problem = Problem::vendor_library_error,
                    .text = fmt::format("the connection of the test: {}", why.to_string(peer.to_string()))};
}

CmNegotiationImpl::CmNegotiationImpl(cm::Manager& manager, const CmNegotiationOptions& options)
    : manager_(manager), options_(options) {}

CmNegotiationImpl::~CmNegotiationImpl() {
  drop();
  listener_.destroy();
}

Outcome<void> CmNegotiationImpl::start(Instant now) {
  if (options_.connect_timeout <= Duration{})
    return failed(Problem::configuration_error, "CmNegotiationOptions::connect_timeout is more than 0");
  // In a negotiation, its link exists when a driver is made. Before that, one is made without a link to try the
  // configuration.
  auto added = framework_.add(
      make_builtin_plugin({.name = "rdma_cm",
                           .parameters = device_parameters("rdma_cm"),
                           .make = [this](Transport, const Config& config) -> Outcome<std::unique_ptr<QpDriver>> {
                             return std::make_unique<LinkDriver>(link_, config);
                           }}));
  if (!added) return added;
  if (const auto fine = make_variant(); !fine) return tl::unexpected(fine.error());
  const bool server = options_.role == Role::responder;
  auto id = server ? manager_.listen(options_.address)
                   : manager_.resolve(options_.address, {.timeout = options_.connect_timeout});
  if (!id) return failed(Problem::configuration_error, id.error().message());
  (server ? listener_ : control_) = *id;
  if (server) return {};
  phase_ = Phase::finding;
  since_ = now;
  peer_ = options_.address;
  return {};
}

Outcome<std::unique_ptr<Variant>> CmNegotiationImpl::make_variant() {
  return framework_.make(what_it_is().plugin, what_it_is().variant, options_.role, options_.config);
}

void CmNegotiationImpl::handle(Instant now, cm::Event& event) {
  if (link_) link_->now = now;
  if (const auto* listening = std::get_if<cm::Listening>(&event)) {
    events_.push_back(Listening{listening->local});
  } else if (auto* request = std::get_if<cm::ConnectRequest>(&event)) {
    on(now, *request);
  } else if (const auto* way = std::get_if<cm::Resolved>(&event)) {
    if (way->id == control_) open_control(now, control_, *way->device);
    if (link_ && way->id == link_->id) link_->make();
  } else if (const auto* up = std::get_if<cm::Established>(&event)) {
    on_established(now, *up);
  } else if (const auto* failed = std::get_if<cm::ConnectFailed>(&event)) {
    on_failed(now, failed->id, failed->why);
  } else if (const auto* rejected = std::get_if<cm::Rejected>(&event)) {
    on_failed(now, rejected->id, rejected->why);
  } else if (const auto* down = std::get_if<cm::Disconnected>(&event)) {
    on_disconnected(now, *down);
  }
}

void CmNegotiationImpl::on(Instant now, cm::ConnectRequest& request) {
  if (phase_ == Phase::idle) {
    control_ = request.id;
    peer_ = request.peer;
    since_ = now;
    return open_control(now, control_, *request.id.device());
  }
  if (phase_ == Phase::talking && !link_->id && same_host(request.peer, peer_)) {
    link_->id = request.id;
    if (link_->wanted) link_->make();
    return;
  }
  (void)request.id.reject();
  request.id.destroy();
}

void CmNegotiationImpl::open_control(Instant now, cm::Id id, Device& device) {
  phase_ = Phase::calling;
  auto made = CmMessages::create(device);
  if (!made) return end(now, made.error());
  messages_ = std::move(*made);
  Result<void> done;
  if (options_.role == Role::initiator) {
    done = id.connect({.ird = 0, .ord = 0, .qp = messages_->init(), .timeout = options_.connect_timeout});
  } else if (auto qp = id.create_qp(messages_->init()); !qp) {
    done = tl::unexpected(qp.error());
  }
  if (done && id.qp() == nullptr) done = fail(Errc::unsupported, "the queue pair is made too late to post receives");
  if (done)
    if (auto attached = messages_->attach(*id.qp()); !attached) return end(now, attached.error());
  if (done && options_.role == Role::responder) done = id.accept({.ird = 0, .ord = 0});
  if (!done) end(now, device_failed("the connection", done.error()).value());
}

void CmNegotiationImpl::on_established(Instant now, const cm::Established& up) {
  if (link_ && up.id == link_->id) return link_->established();
  if (up.id != control_ || phase_ != Phase::calling) return;
  control_up_ = true;
  if (const auto local = control_.local_address()) local_ = *local;
  begin_session(now);
}

void CmNegotiationImpl::begin_session(Instant now) {
  link_ = std::make_shared<TestLink>(TestLink{.manager = manager_,
                                              .role = options_.role,
                                              .peer = options_.address,
                                              .timeout = options_.connect_timeout,
                                              .now = now});
  if (options_.role == Role::responder) link_->peer = peer_;
  auto variant = make_variant();
  if (!variant) return end(now, variant.error());
  auto session = Session::raw(options_.role, what_it_is(), std::move(*variant), options_.session, now);
  if (!session) return end(now, session.error());
  session_ = std::move(*session);
  phase_ = Phase::talking;
  move(now);
}

void CmNegotiationImpl::on_failed(Instant now, cm::Id id, const cm::Failure& why) {
  if (listener_ && id == listener_) {
    events_.push_back(ListenFailed{options_.address, failure_of(why, options_.address)});
  } else if (id == control_ && phase_ != Phase::leaving && phase_ != Phase::idle) {
    end(now, failure_of(why, peer_));
  } else if (link_ && id == link_->id) {
    link_->fail(why);
  }
}

void CmNegotiationImpl::on_disconnected(Instant now, const cm::Disconnected& down) {
  if (down.id == control_) {
    control_up_ = false;
    // First handle the messages that arrived before the end.
    if (phase_ == Phase::talking) move(now);
    if (phase_ == Phase::talking) {
      session_->handle_end(now, "the connection ended");
      move(now);
    }
  } else if (link_ && down.id == link_->id) {
    link_->up = false;
    link_->fail(down.why);
  }
  if (phase_ == Phase::leaving && !control_up_ && !(link_ && link_->up)) drop();
}

void CmNegotiationImpl::turn(Instant now) {
  if (link_) link_->now = now;
  if (phase_ == Phase::talking) move(now);
  if (phase_ == Phase::leaving && now >= leave_by_) drop();
}

/// Passes received messages to the session, and sends its output.
void CmNegotiationImpl::move(Instant now) {
  for (;;) {
    auto came = messages_->take();
    if (!came) session_->handle_end(now, came.error().text);
    if (!came || !*came) break;
    session_->handle_bytes(now, **came);
    if (const Bytes said = session_->poll_transmit(); !said.empty()) (void)messages_->send(said);
  }
  if (session_->next_deadline() <= now) session_->handle_deadline(now);
  if (const Bytes said = session_->poll_transmit(); !said.empty())
    if (auto sent = messages_->send(said); !sent) session_->handle_end(now, sent.error().text);
  if (session_->state() != Session::State::over) return;
  end(now, session_->failure() == nullptr ? std::nullopt : std::optional(*session_->failure()));
}

void CmNegotiationImpl::end(Instant now, std::optional<Failure> failure) {
  Ended ended{.dial = options_.role == Role::initiator ? DialId{1} : DialId{0},
              .local = local_,
              .peer = peer_,
              .request = what_it_is(),
              .failure = std::move(failure),
              .took = now - since_};
  if (session_) {
    ended.history = session_->history();
    if (auto agreed = session_->agreed(); agreed && !ended.failure) ended.agreed = std::move(*agreed);
  }
  events_.push_back(std::move(ended));
  phase_ = Phase::leaving;
  leave_by_ = after(now, leave_within);
  if (control_up_ && !control_.disconnect()) control_up_ = false;
  if (link_ && link_->up && !link_->id.disconnect()) link_->up = false;
  if (!control_up_ && !(link_ && link_->up)) leave_by_ = now;
}

void CmNegotiationImpl::drop() {
  session_.reset();  // with its variant and the test's queue pair
  if (link_ && link_->id) {
    link_->qp.reset();
    link_->id.destroy();
  }
  link_.reset();
  control_.destroy();
  control_ = {};
  messages_.reset();
  control_up_ = false;
  phase_ = Phase::idle;
  leave_by_ = never;
}

Instant CmNegotiationImpl::next_deadline() const {
  if (!events_.empty()) return Instant{};
  if (phase_ == Phase::talking) return session_->next_deadline();
  return phase_ == Phase::leaving ? leave_by_ : never;
}

std::optional<Event> CmNegotiationImpl::poll_event() {
  if (events_.empty()) return std::nullopt;
  Event out = std::move(events_.front());
  events_.pop_front();
  return out;
}

Outcome<std::unique_ptr<CmNegotiation>> CmNegotiation::open(cm::Manager& manager, const CmNegotiationOptions& options,
                                                            Instant now) {
  auto out = std::make_unique<CmNegotiationImpl>(manager, options);
  if (auto started = out->start(now); !started) return tl::unexpected(started.error());
  return out;
}

}  // namespace parley::neg

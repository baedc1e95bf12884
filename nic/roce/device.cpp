// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "nic/roce/device.hpp"

#include <cstring>

#include "base/assert.hpp"
#include "nic/roce/gsi.hpp"
#include "nic/roce/middle.hpp"
#include "nic/roce/qp.hpp"

namespace parley::nic::roce {
namespace {

using wire::ib::Packet;
using wire::ib::Service;

constexpr std::size_t gids_max = 256;

class Domain final : public XrcDomain {
 public:
  explicit Domain(Ref<Nic> nic) : nic_(std::move(nic)) {
    nic_->domains.emplace(this, Ref<XrcDomainRing>(new XrcDomainRing));
  }
  ~Domain() override { nic_->domains.erase(this); }

 private:
  Ref<Nic> nic_;
};

class Handle final : public AddressHandle {
 public:
  Handle(Ref<Nic> nic, PdHandle pd, const Path& path) : nic_(std::move(nic)), pd_(pd) {
    nic_->handles.emplace(this, path);
    nic_->tables->pds.use(pd_);
  }
  ~Handle() override {
    nic_->handles.erase(this);
    nic_->tables->pds.release(pd_);
  }

 private:
  Ref<Nic> nic_;
  PdHandle pd_;
};

class SoftDevice final : public RoceDevice {
 public:
  explicit SoftDevice(const DeviceOptions& options) : nic_(new Nic(options)), gsi_(*nic_) {}

  Result<PdHandle> alloc_pd() override { return tables()->pds.add(); }
  Result<void> dealloc_pd(PdHandle pd) override { return tables()->pds.remove(pd); }
  Result<MemoryRegion> reg_mr(PdHandle pd, MutBytes memory, Access access) override {
    return add_mr(pd, memory, access, {});
  }
  Result<MemoryRegion> reg_mr_iova(PdHandle pd, MutBytes memory, std::uint64_t iova, Access access) override {
    return add_mr(pd, memory, access, iova);
  }
  Result<void> dereg_mr(std::uint32_t lkey) override {
    auto pd = tables()->regions.remove(lkey);
    if (!pd) return tl::unexpected(pd.error());
    tables()->pds.release(*pd);
    return {};
  }
  Result<MemoryWindow> alloc_mw(PdHandle pd, MwType type) override {
    if (auto known = check_pd(pd); !known) return tl::unexpected(known.error());
    auto window = tables()->regions.add_window(pd, type);
    if (window) tables()->pds.use(pd);
    return window;
  }
  Result<void> dealloc_mw(std::uint32_t handle) override {
    auto pd = tables()->regions.remove_window(handle);
    if (!pd) return tl::unexpected(pd.error());
    tables()->pds.release(*pd);
    return {};
  }
  Result<void> withdraw_mr(std::uint32_t lkey) override {
    auto done = dereg_mr(lkey);
    if (done || done.error().code() != Errc::wrong_state || tables()->regions.has_windows(lkey)) return done;
    for (std::size_t i = 0; i < nic_->slots.size(); ++i)
      if (nic_->slots[i] != nullptr) nic_->slots[i]->withdraw(lkey >> 8);
    for (const auto& [owner, ring] : tables()->srqs)
      withdraw(tables()->regions, ring->posted, ring->posted.head(), lkey >> 8);
    return dereg_mr(lkey);
  }
  Result<void> rereg_mr(std::uint32_t lkey, const MrChange& change) override {
    if (change.pd)
      if (auto known = check_pd(*change.pd); !known) return known;
    const auto former = tables()->regions.change(lkey, change);
    if (!former) return tl::unexpected(former.error());
    if (change.pd) tables()->pds.use(*change.pd);
    if (change.pd) tables()->pds.release(*former);
    return {};
  }
  Result<std::unique_ptr<CompletionChannel>> create_comp_channel() override { return make_channel(tables()); }
  Result<std::unique_ptr<CompletionQueue>> create_cq(const CqInit& init) override { return make_cq(tables(), init); }
  Result<std::unique_ptr<SharedReceiveQueue>> create_srq(const SrqInit& init) override;
  Result<std::unique_ptr<QueuePair>> create_qp(const QpInit& init) override { return create_roce_qp(init); }
  Result<std::unique_ptr<XrcDomain>> open_xrcd(const XrcdInit& init) override {
    if (init.fd != -1)
      return fail(Errc::unsupported,
                  "XrcdInit::fd is {a}; a software NIC is one process's, so no file shares its domains", init.fd);
    return std::make_unique<Domain>(nic_);
  }
  Result<std::unique_ptr<QueuePair>> open_qp(XrcDomain& domain, std::uint32_t qp_num) override;
  Result<std::unique_ptr<AddressHandle>> create_ah(PdHandle pd, const AhAttr& attr) override {
    if (auto known = check_pd(pd); !known) return tl::unexpected(known.error());
    auto path = nic_->path_of(attr);
    if (!path) return tl::unexpected(path.error());
    return std::make_unique<Handle>(nic_, pd, *path);
  }
  std::optional<AsyncEvent> poll_async_event() override;
  DeviceAttr query() const override;

  Result<std::unique_ptr<RoceQp>> create_roce_qp(const QpInit& init) override;
  RoceQp* find_qp(std::uint32_t qp_num) const override { return nic_->find_qp(qp_num); }
  Result<void> set_gid(std::uint8_t index, const Gid& gid) override {
    if (nic_->options.gids.size() <= index) nic_->options.gids.resize(index + std::size_t{1});
    nic_->options.gids[index] = gid;
    return {};
  }
  Gid gid(std::uint8_t index) const override { return nic_->gid(index); }
  std::optional<std::uint8_t> find_gid(const Gid& gid) const override { return nic_->find_gid(gid); }
  void set_pace(PacketPace* pace) noexcept override { nic_->pace = pace; }
  void set_groups(PacketGroups* groups) noexcept override {
    nic_->joins = groups;
    nic_->asks_to_join = true;
  }

  void handle_packet(Instant now, const PacketFrom& from, ConstBytes packet) override;
  bool poll_transmit(Instant now, PacketTo& to, MutBytes out) override;
  PacketRun poll_run(Instant now, std::size_t most, PacketTo& to, MutBytes out) override;
  PacketPlacement place_of(const PacketFrom& from, std::size_t size, ConstBytes packets) override;
  void handle_placed(Instant now, const PacketFrom& from, std::size_t size, ConstBytes packets) override;
  bool has_transmit() const override { return gsi_.ready() || nic_->first_dirty != nullptr; }
  Instant next_deadline() const override { return nic_->timers.next(); }
  void handle_deadline(Instant now) override;
  bool poll_mad(MadIn& mad) override { return gsi_.poll(mad); }
  Result<void> send_mad(const MadOut& mad) override { return gsi_.send(mad); }
  std::optional<QpNotice> poll_notice() override { return nic_->take(nic_->notices, &EventReceiver::waiting_notices); }
  bool is_quiet(Instant now) const override { return !has_news() && !has_transmit() && next_deadline() > now; }
  bool has_news() const override { return gsi_.received() || !nic_->notices.empty(); }
  bool has_events() const override { return tables()->has_events() || !nic_->events.empty(); }
  const Counters& counters() const override { return nic_->counters; }

 private:
  Result<MemoryRegion> add_mr(PdHandle pd, MutBytes memory, Access access, std::optional<std::uint64_t> at) {
    if (auto known = check_pd(pd); !known) return tl::unexpected(known.error());
    auto region = tables()->regions.add(pd, memory, access, at);
    if (region) tables()->pds.use(pd);
    return region;
  }
  const Ref<Tables>& tables() const { return nic_->tables; }
  Result<void> check_pd(PdHandle pd) const {
    if (tables()->pds.known(pd)) return {};
    return fail(Errc::invalid_argument, "pd {a} is not a protection domain of this device", pd);
  }
  Result<Ref<CqRing>> find_cq(const CompletionQueue* cq, std::string_view sentence) const {
    const auto found = tables()->cqs.find(cq);
    if (found == tables()->cqs.end()) return fail(Errc::invalid_argument, sentence);
    return found->second;
  }
  Result<void> fill_parts(const QpInit& init, QpContext& parts) const;
  Result<void> fill_target(const QpInit& init, QpContext& parts) const;
  Qp* receiver_of(const PacketFrom& from, const Packet& packet);
  Qp* receiver_of_middles(std::size_t size, ConstBytes packets, wire::ib::Bth& bth);
  void handle_datagram(Instant now, const PacketFrom& from, const Packet& packet);

  Ref<Nic> nic_;
  Gsi gsi_;
};

Result<std::unique_ptr<SharedReceiveQueue>> SoftDevice::create_srq(const SrqInit& init) {
  if (init.xrcd == nullptr) {
    if (init.cq == nullptr) return make_srq(tables(), init);
    return fail(Errc::invalid_argument, "SrqInit::cq goes with SrqInit::xrcd; receives complete where QpInit says");
  }
  const auto domain = nic_->domains.find(init.xrcd);
  if (domain == nic_->domains.end())
    return fail(Errc::invalid_argument, "SrqInit::xrcd is not an XRC domain of this device");
  auto cq =
      find_cq(init.cq, "SrqInit::cq is not a completion queue of this device; an XRC shared receive queue needs one");
  if (!cq) return tl::unexpected(cq.error());
  XrcParts parts{.domain = domain->second, .cq = *cq};
  parts.number = nic_->srqns.assign([&](std::uint32_t number) { return tables()->xrc_srqs.contains(number); });
  return make_srq(tables(), init, std::move(parts));
}

// IBA §A14: only the domain is used; other resources come from the request's shared receive queue.
Result<void> SoftDevice::fill_target(const QpInit& init, QpContext& parts) const {
  const auto domain = nic_->domains.find(init.xrcd);
  if (domain == nic_->domains.end())
    return fail(Errc::invalid_argument,
                "QpInit::xrcd is not an XRC domain of this device; an XRC_TGT queue pair needs one");
  if (init.srq != nullptr || init.send_cq != nullptr || init.recv_cq != nullptr)
    return fail(Errc::invalid_argument, "QpInit: an XRC_TGT queue pair has no queues of its own");
  parts.domain = domain->second;
  parts.pd = 0;
  parts.max_send_wr = parts.max_recv_wr = 0;
  return {};
}

Result<void> SoftDevice::fill_parts(const QpInit& init, QpContext& parts) const {
  if (init.type == QpType::xrc_tgt) return fill_target(init, parts);
  if (auto known = check_pd(init.pd); !known) return known;
  if (init.xrcd != nullptr) return fail(Errc::invalid_argument, "QpInit::xrcd goes with XRC_TGT queue pairs only");
  if (init.max_send_wr > wr_max)
    return fail(Errc::invalid_argument, "QpInit::max_send_wr is {a}; at most {b}", init.max_send_wr, wr_max);
  auto send_cq = find_cq(init.send_cq, "QpInit::send_cq is not a completion queue of this device");
  if (!send_cq) return tl::unexpected(send_cq.error());
  parts.send_cq = *send_cq;
  if (init.type == QpType::xrc_ini) {
    parts.max_recv_wr = 0;
    if (init.srq == nullptr) return {};
    return fail(Errc::invalid_argument, "QpInit::srq: an XRC_INI queue pair receives nothing");
  }
  if (init.max_recv_wr > wr_max)
    return fail(Errc::invalid_argument, "QpInit::max_recv_wr is {a}; at most {b}", init.max_recv_wr, wr_max);
  auto recv_cq = find_cq(init.recv_cq, "QpInit::recv_cq is not a completion queue of this device");
  if (!recv_cq) return tl::unexpected(recv_cq.error());
  parts.recv_cq = *recv_cq;
  if (init.srq == nullptr) return {};
  const auto srq = tables()->srqs.find(init.srq);
  if (srq == tables()->srqs.end())
    return fail(Errc::invalid_argument, "QpInit::srq is not a shared receive queue of this device");
  if (srq->second->xrc.number != 0)
    return fail(Errc::invalid_argument, "QpInit::srq is an XRC one, which packets name; no queue pair has it");
  parts.srq = srq->second;
  return {};
}

Result<std::unique_ptr<RoceQp>> SoftDevice::create_roce_qp(const QpInit& init) {
  switch (init.type) {
    case QpType::rc:
    case QpType::uc:
    case QpType::ud:
    case QpType::xrc_ini:
    case QpType::xrc_tgt: break;
    default:
      return fail(Errc::invalid_argument, "QpInit::type: {a} is not a type of queue pair", static_cast<int>(init.type));
  }
  QpContext parts;
  parts.nic = nic_;
  parts.type = init.type;
  parts.pd = init.pd;
  parts.max_send_wr = init.max_send_wr;
  parts.max_recv_wr = init.max_recv_wr;
  if (auto filled = fill_parts(init, parts); !filled) return tl::unexpected(filled.error());
  if (nic_->by_number.size() >= nic_->qpns.size()) return fail(Errc::no_space, "all numbers of queue pairs are in use");
  parts.number = nic_->qpns.assign([&](std::uint32_t number) { return nic_->by_number.contains(number); });
  if (init.type == QpType::xrc_tgt) return std::make_unique<Target>(std::make_shared<Qp>(std::move(parts)));
  return std::make_unique<Qp>(std::move(parts));
}

Result<std::unique_ptr<QueuePair>> SoftDevice::open_qp(XrcDomain& domain, std::uint32_t qp_num) {
  const auto known = nic_->domains.find(&domain);
  if (known == nic_->domains.end()) return fail(Errc::invalid_argument, "the domain is none of this device");
  Qp* qp = nic_->find_qp(qp_num);
  if (qp == nullptr || qp->type() != QpType::xrc_tgt || qp->domain() != &*known->second)
    return fail(Errc::invalid_argument, "there is no XRC_TGT queue pair {a} in this domain", qp_num);
  return std::make_unique<Target>(static_cast<Target*>(qp->handles.front())->qp());
}

DeviceAttr SoftDevice::query() const {
  return {.name = nic_->options.name,
          .transport = Transport::roce,
          .qp_types = {QpType::rc, QpType::uc, QpType::ud, QpType::xrc_ini, QpType::xrc_tgt},
          .imm_data = true,
          .xrc = true,
          .address_handles = true,
          .max_pd = pd_max,
          .max_mr = mr_max,
          .max_mw = mr_max,
          .max_cqe = static_cast<std::uint32_t>(cq_capacity_max),
          .max_qp_wr = wr_max,
          .max_srq_wr = static_cast<std::uint32_t>(srq_capacity_max),
          .max_sge = static_cast<std::uint32_t>(sge_max),
          .max_sge_rd = static_cast<std::uint32_t>(sge_max),
          .max_qp_rd_atom = nic_->options.max_qp_rd_atom,
          .max_qp_init_rd_atom = nic_->options.max_qp_init_rd_atom};
}

std::optional<AsyncEvent> SoftDevice::poll_async_event() {
  if (const SrqRing* srq = tables()->srq_events.take()) return SrqLimitReached{srq->owner};
  if (const auto notice = nic_->take(nic_->events, &EventReceiver::waiting_events))
    return QueuePairEvent{.kind = std::get<QueuePairEvent::Kind>(notice->what), .qp = notice->qp};
  return std::nullopt;
}

Qp* SoftDevice::receiver_of(const PacketFrom& from, const Packet& packet) {
  Qp* qp = nic_->find_qp(packet.bth.dest_qpn);
  if (qp == nullptr) return nullptr;
  if (packet.bth.opcode == PARLEY_IB_OPCODE_CNP) return qp;
  const bool response = wire::ib::rule_of(packet.bth.opcode).response;
  const auto fits = [&] {
    switch (wire::ib::service_of(packet.bth.opcode)) {
      case Service::rc: return qp->type() == QpType::rc;
      case Service::uc: return qp->type() == QpType::uc;
      case Service::ud:
        return qp->type() == QpType::ud && nic_->find_gid(from.destination, from.sgid_index).has_value();
      case Service::xrc: return qp->type() == (response ? QpType::xrc_ini : QpType::xrc_tgt);
      default: return false;
    }
  };
  return fits() ? qp : nullptr;
}

// Most packets are in the middle of messages. Null: these are not.
Qp* SoftDevice::receiver_of_middles(std::size_t size, ConstBytes packets, wire::ib::Bth& bth) {
  if (size < PARLEY_IB_BTH_LEN || packets.size() < size || !is_middle(packets.front())) return nullptr;
  bth.read(packets);
  return nic_->find_qp(bth.dest_qpn);
}

PacketPlacement SoftDevice::place_of(const PacketFrom& from, std::size_t size, ConstBytes packets) {
  wire::ib::Bth bth;
  Qp* qp = receiver_of_middles(size, packets, bth);
  return qp == nullptr ? PacketPlacement{} : qp->place_of(from, bth, size, packets);
}

void SoftDevice::handle_placed(Instant now, const PacketFrom& from, std::size_t size, ConstBytes packets) {
  nic_->now = now;
  wire::ib::Bth bth;
  Qp* qp = receiver_of_middles(size, packets, bth);
  if (qp != nullptr) nic_->counters.packets_received += qp->handle_middles(now, from, bth, size, packets, true);
}

void SoftDevice::handle_packet(Instant now, const PacketFrom& from, ConstBytes octets) {
  nic_->now = now;
  Counters& counters = nic_->counters;
  ++counters.packets_received;
  wire::ib::Bth bth;
  Qp* middle = receiver_of_middles(octets.size(), octets, bth);
  if (middle != nullptr && middle->handle_middles(now, from, bth, octets.size(), octets) != 0) return;
  Packet& packet = nic_->coming_in;
  if (!packet.read(octets)) {
    ++counters.dropped_malformed;
  } else if (!wire::ib::rule_of(packet.bth.opcode).assigned) {
    ++counters.dropped_opcode;
  } else if (packet.bth.tver != 0) {
    ++counters.dropped_version;  // IBA §9.2.4
  } else if (packet.bth.opcode != PARLEY_IB_OPCODE_CNP && wire::ib::service_of(packet.bth.opcode) == Service::ud &&
             (packet.bth.dest_qpn == PARLEY_IB_GSI_QPN || packet.bth.dest_qpn == PARLEY_IB_QPN_MULTICAST)) {
    handle_datagram(now, from, packet);
  } else if (Qp* qp = receiver_of(from, packet); qp == nullptr) {
    ++counters.dropped_qpn;
  } else if (packet.bth.opcode == PARLEY_IB_OPCODE_CNP) {
    ++counters.cnp_received;
    qp->handle_cnp();
  } else {
    qp->handle_packet(now, from, packet);
  }
}

// To QP1, or to a multicast group: to each queue pair that is attached to it (IBA §10.5).
void SoftDevice::handle_datagram(Instant now, const PacketFrom& from, const Packet& packet) {
  Counters& counters = nic_->counters;
  if (packet.bth.dest_qpn == PARLEY_IB_QPN_MULTICAST) {
    const auto group = nic_->groups.find(from.destination);
    if (group == nic_->groups.end()) {
      ++counters.dropped_destination;
      return;
    }
    for (Qp* qp : group->second) qp->handle_packet(now, from, packet);
    return;
  }
  const auto index = nic_->find_gid(from.destination, from.sgid_index);
  if (!index) {
    ++counters.dropped_destination;
  } else if (!p_keys_match(packet.bth.p_key, PARLEY_IB_P_KEY_DEFAULT)) {
    ++counters.dropped_p_key;
  } else {
    gsi_.handle_packet(from, *index, packet);
  }
}

bool SoftDevice::poll_transmit(Instant now, PacketTo& to, MutBytes out) {
  const PacketRun run = poll_run(now, 1, to, out);
  if (!run.payload.empty())
    std::memcpy(out.data() + run.size - run.payload.size(), run.payload.data(), run.payload.size());
  return run.count != 0;
}

PacketRun SoftDevice::poll_run(Instant now, std::size_t most, PacketTo& to, MutBytes out) {
  PARLEY_ASSERT(out.size() >= packet_max);
  nic_->now = now;
  if (gsi_.ready()) {
    gsi_.transmit(to, out);
    return {.size = to.size, .count = 1};
  }
  while (Qp* qp = nic_->first_dirty) {
    nic_->unlink_dirty(*qp);
    // If it has more to send, it is queued again at the end; if others wait, it sends one packet per turn.
    if (qp->is_held(now)) continue;
    const PacketRun run = qp->transmit(now, nic_->first_dirty == nullptr ? most : 1, to, out);
    if (run.count != 0) return run;
    if (qp->ready()) nic_->mark_dirty(*qp);
  }
  return {};
}

void SoftDevice::handle_deadline(Instant now) {
  nic_->now = now;
  while (const auto slot = nic_->timers.pop_due(now)) {
    Qp* qp = nic_->slots[*slot];
    qp->wakes = never;
    qp->handle_deadline(now);
  }
}

}  // namespace

Result<std::unique_ptr<RoceDevice>> make_device(const DeviceOptions& options) {
  if (options.gids.size() > gids_max)
    return fail(Errc::invalid_argument, "DeviceOptions::gids has {a}; at most {b}", std::ssize(options.gids), gids_max);
  if (options.port_mtu < Mtu::octets_256 || options.port_mtu > Mtu::octets_4096)
    return fail(Errc::invalid_argument, "DeviceOptions::port_mtu is {a}; must be 1 to 5",
                static_cast<int>(options.port_mtu));
  for (const auto& [number, name] :
       {std::pair{options.first_qpn, "DeviceOptions::first_qpn is {a}; must be 0, or 2 to {b}"},
        std::pair{options.first_srqn, "DeviceOptions::first_srqn is {a}; must be 0, or 2 to {b}"}})
    if (number != 0 && (number < Numbers::smallest || number > Numbers::largest))
      return fail(Errc::invalid_argument, name, number, Numbers::largest);
  if (options.qpn_prefix > Numbers::prefix_max)
    return fail(Errc::invalid_argument, "DeviceOptions::qpn_prefix is {a}; it is at most {b}", options.qpn_prefix,
                Numbers::prefix_max);
  if (options.qpn_prefix != 0 && options.first_qpn != 0 &&
      !Numbers::with_prefix(options.qpn_prefix).contains(options.first_qpn))
    return fail(Errc::invalid_argument, "DeviceOptions::first_qpn is {a}; its top octet is not qpn_prefix, {b}",
                options.first_qpn, options.qpn_prefix);
  if (options.window < 1 || options.window > psn_half)
    return fail(Errc::invalid_argument, "DeviceOptions::window is {a}; must be 1 to {b}", options.window, psn_half);
  if (options.ack_every < 1) return fail(Errc::invalid_argument, "DeviceOptions::ack_every is 0; must be at least 1");
  return std::make_unique<SoftDevice>(options);
}

}  // namespace parley::nic::roce

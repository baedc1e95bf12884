// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/workload/workload_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/bytes_io.hpp"
#include "base/gid.hpp"
#include "nic/common/ud_steps.hpp"
#include "parley/ib.hpp"
#include "parley/roce.hpp"
#include "sim/workload/workload_traffic.hpp"
#include "wire/ib/cma.hpp"

namespace parley::sim {
namespace {

constexpr std::size_t head = ScenarioSend::octets_min;  // number of the send, then of its message
constexpr std::uint32_t idle_slots = 4;                 // of a queue pair that must receive nothing
constexpr std::size_t group_completions_max = 1 << 16;

check::MessageName pattern_of(std::uint32_t send, std::uint32_t message) {
  return {send, check::Direction::to_responder, message};
}

}  // namespace

std::string member_label(const Scenario& scenario, std::size_t member) {
  const ScenarioMember& of = scenario.members[member];
  return fmt::format("{} in {} (member {})", of.host, group_text(of.group), member + 1);
}

/// Its host has restarted, and it does not join again.
bool GroupUser::stays_away(std::size_t member) const { return restarted_ && !scenario().members[member].rejoin; }

void GroupUser::start(bool restarted) {
  restarted_ = restarted;
  Device& device = seat_.host->device();
  if (const auto pd = device.alloc_pd()) pd_ = *pd;
  if (auto cq = device.create_cq(group_completions_max)) cq_ = std::move(*cq);
  std::set<Address::Family> families;
  for (const ScenarioMember& member : scenario().members) families.insert(member.group.family);
  for (const ScenarioSend& send : scenario().sends) families.insert(send.group.family);
  for (std::size_t i = 0; i < scenario().members.size(); ++i)
    if (scenario().members[i].host == seat_.host->name() && stays_away(i))
      seat_.work->stays[i] = GroupWork::MembershipState::over;
  for (const Address::Family family : families) {
    Address local = seat_.host->address(family, seat_.nic);
    if (local.is_any()) continue;  // it has no IPv6
    local.port = group_port;
    cm::ListenOptions options;
    options.transport = ib::Options{.qp_type = QpType::ud};
    const auto id = seat_.host->cm().listen(local, options);
    if (!id)
      wrong("workload",
            fmt::format("{} cannot listen at {}: {}", seat_.host->name(), local.to_string(), id.error().message()));
    else
      listeners_.emplace_back(*id, family);
  }
}

void GroupUser::crash() {
  for (ReceiverQp& receiver : receivers_)
    for (check::GroupReceiver::Membership& stay : history().receivers[receiver.record].stays)
      stay.to = std::min(stay.to, now());
  for (std::size_t i = 0; i < scenario().members.size(); ++i) {
    const ScenarioMember& member = scenario().members[i];
    if (member.host == seat_.host->name() && seat_.work->stays[i] == GroupWork::MembershipState::in)
      seat_.work->stays[i] = member.rejoin ? GroupWork::MembershipState::due : GroupWork::MembershipState::over;
  }
  for (const SenderQp& sender : senders_)
    seat_.work->sent[sender.send].completed = seat_.work->sent[sender.send].posted;
  history().changed();
  senders_.clear();
  receivers_.clear();
  listeners_.clear();
  cq_.reset();
}

bool GroupUser::handle(cm::Event& event) {
  const auto family_of = [this](const cm::Id& id) -> std::optional<Address::Family> {
    for (const auto& [listener, family] : listeners_)
      if (listener.number() == id.number()) return family;
    return std::nullopt;
  };
  if (const auto* listening = std::get_if<cm::Listening>(&event)) {
    const auto family = family_of(listening->id);
    if (family) open(*family);
    return family.has_value();
  }
  if (const auto* failed = std::get_if<cm::ConnectFailed>(&event); failed != nullptr && family_of(failed->id)) {
    wrong("workload", fmt::format("{} cannot listen: {}", seat_.host->name(), failed->why.to_string()));
    return true;
  }
  if (auto* request = std::get_if<cm::ConnectRequest>(&event)) {
    const auto mine = std::any_of(listeners_.begin(), listeners_.end(), [&](const auto& listener) {
      return listener.first.number() == request->listener.number();
    });
    if (!mine) return false;
    (void)request->id.reject();  // this address has no service
    request->id.destroy();
    return true;
  }
  return false;
}

/// Finds the address of this family that is in use.
void GroupUser::open(Address::Family family) {
  std::set<Address> groups;
  for (const ScenarioMember& member : scenario().members) groups.insert(member.group);
  for (const ScenarioSend& send : scenario().sends) groups.insert(send.group);
  std::erase_if(groups, [family](const Address& group) { return group.family != family; });
  for (std::size_t i = 0; i < scenario().members.size(); ++i) {
    const ScenarioMember& member = scenario().members[i];
    if (member.host != seat_.host->name() || member.group.family != family) continue;
    groups.erase(member.group);
    open_receiver(member.group, i);
  }
  for (const Address& group : groups) open_receiver(group, std::nullopt);
  for (std::size_t i = 0; i < scenario().sends.size(); ++i)
    if (scenario().sends[i].from == seat_.host->name() && scenario().sends[i].group.family == family) open_sender(i);
}

std::uint32_t GroupUser::octets_of(const Address& group) const {
  std::uint32_t most = static_cast<std::uint32_t>(head);
  for (const ScenarioSend& send : scenario().sends)
    if (send.group == group) most = std::max(most, send.octets);
  return most;
}

std::unique_ptr<QueuePair> GroupUser::make_qp(std::uint32_t depth) {
  QpInit init;
  init.pd = pd_;
  init.send_cq = init.recv_cq = cq_.get();
  init.max_send_wr = init.max_recv_wr = depth;
  init.type = QpType::ud;
  auto qp = seat_.host->device().create_qp(init);
  if (!qp) {
    wrong("workload", fmt::format("{} cannot create a queue pair: {}", seat_.host->name(), qp.error().message()));
    return nullptr;
  }
  if (const auto moved = nic::move_to_rts(**qp, wire::ib::udp_q_key); !moved)
    wrong("workload", fmt::format("{} cannot move a queue pair: {}", seat_.host->name(), moved.error().message()));
  return std::move(*qp);
}

void GroupUser::open_receiver(const Address& group, std::optional<std::size_t> member) {
  const auto senders = std::count_if(scenario().sends.begin(), scenario().sends.end(),
                                     [&](const ScenarioSend& send) { return send.group == group; });
  ReceiverQp& receiver = receivers_.emplace_back();
  receiver.member = member;
  // Datagrams from its own host arrive all at once.
  receiver.slots = member ? window_max * (1 + static_cast<std::uint32_t>(senders)) : idle_slots;
  receiver.slot = network_header + octets_of(group);
  receiver.record = history().receivers.size();
  history().receivers.push_back({.label = member ? member_label(scenario(), *member)
                                                 : fmt::format("{}, not in {}", seat_.host->name(), group_text(group)),
                                 .host = seat_.host->name(),
                                 .group = group});
  history().changed();
  receiver.memory.assign(receiver.slots * receiver.slot, 0xEE);
  const auto region = seat_.host->device().reg_mr(pd_, receiver.memory, Access::local_write);
  if (region) receiver.region = *region;
  receiver.qp = make_qp(receiver.slots);
  if (!receiver.qp || !region) return;
  for (std::uint32_t i = 0; i < receiver.slots; ++i) post_receive(receiver);
  if (!member || stays_away(*member)) return;
  const ScenarioMember& spec = scenario().members[*member];
  if (spec.until <= now())
    seat_.work->stays[*member] = GroupWork::MembershipState::over;
  else if (spec.at <= now())
    join(receiver);
  else
    set_timer_(spec.at, Due::join, *member);
  if (spec.until != never && spec.until > now()) set_timer_(spec.until, Due::leave, *member);
}

void GroupUser::post_receive(ReceiverQp& receiver) {
  const std::uint64_t slot = receiver.posted % receiver.slots;
  const Sge sge{.addr = receiver.region.addr + slot * receiver.slot,
                .length = static_cast<std::uint32_t>(receiver.slot),
                .lkey = receiver.region.lkey};
  const std::uint64_t wr_id = receive_bit | receiver.posted;
  if (const auto posted = receiver.qp->post_recv({.wr_id = wr_id, .sges = {&sge, 1}}); !posted)
    return wrong("workload", "a receive could not be posted: " + posted.error().message());
  receiver.ledger.posted(wr_id, WcOpcode::recv);
  ++receiver.posted;
}

void GroupUser::join(ReceiverQp& receiver) {
  check::GroupReceiver& record = history().receivers[receiver.record];
  seat_.work->stays[*receiver.member] = GroupWork::MembershipState::in;
  const auto joined = roce::queue_pair(receiver.qp.get())->attach_multicast(gid_of(record.group));
  if (!joined)
    return wrong("workload", fmt::format("{} cannot join {}: {}", seat_.host->name(), group_text(record.group),
                                         joined.error().message()));
  record.stays.push_back({.from = now()});
  history().changed();
}

void GroupUser::leave(ReceiverQp& receiver) {
  check::GroupReceiver& record = history().receivers[receiver.record];
  seat_.work->stays[*receiver.member] = GroupWork::MembershipState::over;
  if (record.stays.empty() || record.stays.back().to != never) return;
  turn();  // datagrams received by now belong to this membership
  if (const auto left = roce::queue_pair(receiver.qp.get())->detach_multicast(gid_of(record.group)); !left)
    wrong("workload",
          fmt::format("{} cannot leave {}: {}", seat_.host->name(), group_text(record.group), left.error().message()));
  record.stays.back().to = now();
  history().changed();
}

/// From the address with the group's family.
std::unique_ptr<AddressHandle> GroupUser::make_ah(const Address& group) {
  std::string why;
  for (std::uint8_t index = 0; index < 16; ++index) {
    auto ah = seat_.host->device().create_ah(
        pd_, {.grh = GlobalRoute{.dgid = gid_of(group), .sgid_index = index, .hop_limit = 1}});
    if (ah) return std::move(*ah);
    if (why.empty()) why = ah.error().message();
  }
  wrong("workload", fmt::format("{} cannot create an address handle: {}", seat_.host->name(), why));
  return nullptr;
}

void GroupUser::open_sender(std::size_t send) {
  const ScenarioSend& spec = scenario().sends[send];
  GroupWork::Sent& sent = seat_.work->sent[send];
  if (sent.posted == spec.messages) return;  // sent before a crash
  SenderQp& sender = senders_.emplace_back();
  sender.send = send;
  sender.memory.assign(std::size_t{window_max} * spec.octets, 0);
  const auto region = seat_.host->device().reg_mr(pd_, sender.memory, Access::local_write);
  if (region) sender.region = *region;
  sender.ah = make_ah(spec.group);
  sender.qp = make_qp(window_max);
  for (std::size_t i = window_max; i > 0; --i) sender.free.push_back(i - 1);
  sender.record = history().sources.size();
  history().sources.push_back({.send = static_cast<std::uint32_t>(send),
                               .host = seat_.host->name(),
                               .group = spec.group,
                               .first = sent.posted});
  if (!sender.ah || !sender.qp || !region) return;
  history().name_source(seat_.host->name(), sender.qp->qp_num(), static_cast<std::uint32_t>(sender.record));
  if (spec.at <= now())
    advance(sender);
  else
    set_timer_(spec.at, Due::send, send);
}

/// One datagram if they have an interval, else as many as there is room for.
void GroupUser::advance(SenderQp& sender) {
  const ScenarioSend& spec = scenario().sends[sender.send];
  const GroupWork::Sent& sent = seat_.work->sent[sender.send];
  while (sent.posted < spec.messages && !sender.free.empty() && post(sender)) {
    if (spec.interval == Duration{}) continue;
    break;
  }
  if (spec.interval != Duration{} && sent.posted < spec.messages)
    set_timer_(now() + spec.interval, Due::send, sender.send);
}

bool GroupUser::post(SenderQp& sender) {
  const ScenarioSend& spec = scenario().sends[sender.send];
  const std::uint32_t message = seat_.work->sent[sender.send].posted;
  const std::size_t slot = sender.free.back();
  const MutBytes octets = MutBytes(sender.memory).subspan(slot * spec.octets, spec.octets);
  Writer writer(octets);
  writer.be32(static_cast<std::uint32_t>(sender.send));
  writer.be32(message);
  check::fill_pattern(pattern_of(static_cast<std::uint32_t>(sender.send), message), octets.subspan(head));
  const Sge sge{.addr = sender.region.addr + slot * spec.octets, .length = spec.octets, .lkey = sender.region.lkey};
  const auto posted = sender.qp->post_send({.wr_id = sender.next_wr,
                                            .opcode = SendWr::Opcode::send,
                                            .sges = {&sge, 1},
                                            .ah = sender.ah.get(),
                                            .remote_qp_num = PARLEY_IB_QPN_MULTICAST,
                                            .remote_qkey = wire::ib::udp_q_key});
  if (!posted) {
    wrong("workload", "a datagram could not be posted: " + posted.error().message());
    return false;
  }
  sender.ledger.posted(sender.next_wr++, WcOpcode::send);
  sender.free.pop_back();
  sender.in_flight.push_back(slot);
  check::GroupSource& source = history().sources[sender.record];
  source.posted.push_back(now());
  source.left.push_back(never);
  ++seat_.work->sent[sender.send].posted;
  history().changed();
  return true;
}

void GroupUser::due(Due what, std::size_t index) {
  if (what == Due::send) {
    for (SenderQp& sender : senders_)
      if (sender.send == index && sender.qp) advance(sender);
    return;
  }
  for (ReceiverQp& receiver : receivers_) {
    if (receiver.member != index || !receiver.qp) continue;
    what == Due::join ? join(receiver) : leave(receiver);
  }
}

void GroupUser::turn() {
  std::array<WorkCompletion, 32> done;
  while (const std::size_t n = cq_ ? cq_->poll(done) : 0)
    for (std::size_t i = 0; i < n; ++i) completed(done[i]);
}

void GroupUser::completed(const WorkCompletion& completion) {
  for (ReceiverQp& receiver : receivers_) {
    if (!receiver.qp || receiver.qp->qp_num() != completion.qp_num) continue;
    receiver.ledger.completed(completion, false, history().receivers[receiver.record].label, now(), *seat_.judge);
    if (completion.status != WcStatus::success) return;
    on_datagram(receiver, completion);
    return post_receive(receiver);
  }
  for (SenderQp& sender : senders_) {
    if (!sender.qp || sender.qp->qp_num() != completion.qp_num) continue;
    sender.ledger.completed(completion, false, seat_.host->name(), now(), *seat_.judge);
    if (sender.in_flight.empty()) return;
    sender.free.push_back(sender.in_flight.front());
    sender.in_flight.pop_front();
    ++seat_.work->sent[sender.send].completed;
    if (scenario().sends[sender.send].interval == Duration{}) advance(sender);
    return;
  }
}

void GroupUser::on_datagram(ReceiverQp& receiver, const WorkCompletion& completion) {
  check::GroupReceiver& record = history().receivers[receiver.record];
  const std::uint64_t slot = (completion.wr_id & ~receive_bit) % receiver.slots;
  const std::size_t octets = completion.byte_len - std::min<std::size_t>(completion.byte_len, network_header);
  const ConstBytes got = ConstBytes(receiver.memory).subspan(slot * receiver.slot + network_header, octets);
  const auto refuse = [&](std::string_view why) {
    if (!history().forged)
      seat_.judge->add("delivery", now(), record.label, fmt::format("a datagram of {} octets {}", octets, why));
  };
  if (octets < head) return refuse("is none that was sent");
  Reader reader(got);
  const std::uint32_t send = reader.be32(), message = reader.be32();
  const auto& sends = scenario().sends;
  if (send >= sends.size() || message >= sends[send].messages) return refuse("is none that was sent");
  if (sends[send].group != record.group) return refuse("is of another group");
  if (octets != sends[send].octets || check::find_mismatch(pattern_of(send, message), got.subspan(head)))
    return refuse("is not what was sent");
  ++record.heard[{send, message}];
  record.octets += octets;
}

}  // namespace parley::sim

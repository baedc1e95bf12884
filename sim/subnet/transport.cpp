// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/subnet/transport.hpp"

#include "sim/subnet/sma.hpp"

namespace parley::sim::subnet {

SubnetTransport::SubnetTransport(VirtualSubnet& net, ClientId client, std::uint32_t qp)
    : net_(net), client_(client), qp_(qp), local_(read_local()) {}

SubnetTransport::~SubnetTransport() {
  net_.transports_[client_] = nullptr;
  net_.subnet_.detach(net_.now_, client_);
}

mad::LocalPort SubnetTransport::read_local() const {
  const State& state = net_.subnet_.state();
  const std::uint32_t index = net_.subnet_.port_of(client_), end = state.end_port(index);
  const Port& port = state.port(end);
  const Node& node = state.node_of(port);
  const PortInfo& info = port.info;
  mad::LocalPort out;
  out.node_guid = node.plan->guid;
  out.port_guid = state.port_guid(port);
  write_bits(out.gid, 0, 64, info.get(PortInfo::gid_prefix));
  write_bits(out.gid, 64, 64, out.port_guid);
  out.lid = info.get(PortInfo::lid);
  out.sm_lid = info.get(PortInfo::master_sm_lid);
  out.sm_sl = info.get(PortInfo::master_sm_sl);
  out.lmc = info.get(PortInfo::lmc);
  out.port = state.port(index).number;
  if (const std::uint8_t timeout = info.get(PortInfo::subnet_time_out); timeout != 0) out.subnet_timeout = timeout;
  out.pkeys.clear();
  constexpr std::uint16_t in_block = 32;
  const std::uint16_t most = node.is_switch() ? switch_p_keys_max : p_keys_max;
  for (std::uint16_t n = 0; n < most; n += in_block) {
    const State::Block block = state.read_table(State::Table::p_keys, end, static_cast<std::uint8_t>(n / in_block));
    for (std::size_t bit = 0; bit < block.size() * 8; bit += 16)
      if (const std::uint64_t key = read_bits(block, bit, 16); key != 0)
        out.pkeys.push_back(static_cast<std::uint16_t>(key));
  }
  return out;
}

bool SubnetTransport::poll_changed() {
  mad::LocalPort now = read_local();
  if (now == local_) return false;
  local_ = std::move(now);
  return true;
}

Result<bool> SubnetTransport::send(const mad::Address& to, ConstBytes mad) {
  Packet packet;
  if (mad.size() != packet.mad.size())
    return fail(Errc::invalid_argument, "a simulated subnet carries management datagrams of 256 octets, not {a}",
                static_cast<std::int64_t>(mad.size()));
  const bool smp = wire::mad::is_smp(mad[1]);
  packet.dlid = to.lid;
  packet.slid = to.source_lid;
  packet.dqp = smp ? 0 : to.qpn;
  packet.sqp = smp ? 0 : std::max<std::uint32_t>(qp_, 1);
  std::copy(mad.begin(), mad.end(), packet.mad.begin());
  net_.subnet_.handle_send(net_.now_, client_, packet);
  return true;
}

Result<std::optional<mad::Transport::Received>> SubnetTransport::receive() {
  if (inbox_.empty()) net_.distribute();
  if (inbox_.empty()) return std::optional<Received>();
  held_ = inbox_.front();
  inbox_.pop_front();
  Received out;
  out.mad = held_.mad;
  out.from.lid = held_.slid;
  out.from.qpn = held_.sqp;
  return std::optional(out);
}

Said<std::unique_ptr<SubnetTransport>> VirtualSubnet::attach(ClientOptions options) {
  options.own_timers = true;
  const auto client = subnet_.attach(now_, options);
  if (!client) return tl::unexpected(client.error());
  if (transports_.size() <= *client) transports_.resize(*client + std::size_t{1});
  std::unique_ptr<SubnetTransport> out(new SubnetTransport(*this, *client, options.qp));
  transports_[*client] = out.get();
  return out;
}

void VirtualSubnet::leave(const mad::Port& port) {
  std::erase_if(joined_, [&port](const Member& member) { return member.port == &port; });
}

void VirtualSubnet::distribute() {
  for (Delivery delivery; subnet_.poll_transmit(delivery);) {
    SubnetTransport* const to = delivery.to < transports_.size() ? transports_[delivery.to] : nullptr;
    if (to == nullptr) continue;
    if (to->inbox_.size() >= SubnetTransport::inbox_max)
      ++to->dropped_;
    else
      to->inbox_.push_back(delivery.packet);
  }
}

/// The waiting port has no work before `deadline`: the others run, and if they have none either, time advances.
void VirtualSubnet::wait(Instant deadline) {
  bool moved = false;
  for (const Member& member : joined_) {
    // It only sends datagrams of 256 octets, which cannot fail here.
    moved = mad::pump(*member.port, *member.transport, now_).value_or(false) || moved;
    deadline = std::min(deadline, member.port->next_deadline());
  }
  if (moved) return;
  const Instant next = std::min(deadline, subnet_.next_deadline());
  stuck_ = next == never;
  if (stuck_) return;
  now_ = std::max(now_, next);
  if (subnet_.next_deadline() <= now_) subnet_.handle_deadline(now_);
}

}  // namespace parley::sim::subnet

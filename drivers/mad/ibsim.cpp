// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/mad/ibsim.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "base/bits.hpp"
#include "wire/mad/smp.hpp"

namespace parley::mad_driver {

namespace {

using wire::mad::MgmtClass;
using wire::mad::NodeInfo;
using wire::mad::PortInfo;

Errc errc_of(int number) {
  // The simulator is gone: its socket has no reader, or another process has bound the name since.
  if (number == ECONNREFUSED || number == ENOTCONN || number == ECONNRESET || number == EPIPE || number == ENOENT)
    return Errc::peer_closed;
  return number == EACCES || number == EPERM ? Errc::not_permitted : Errc::io;
}
constexpr std::string_view ibsim_gone = "ibsim is gone: its socket has no reader any more";

tl::unexpected<Error> failed(int number) {
  const Errc errc = errc_of(number);
  return errc == Errc::peer_closed ? fail(errc, ibsim_gone) : fail(errc, "ibsim's socket: errno {a}", number);
}

}  // namespace

Ibsim::Ibsim(const IbsimOptions& options, std::unique_ptr<ibsim::Client> client)
    : options_(options), client_(std::move(client)) {}

OrText<std::unique_ptr<Ibsim>> Ibsim::open(const IbsimOptions& options) {
  auto client = ibsim::Client::open(options);
  if (!client) return tl::unexpected(client.error());
  std::unique_ptr<Ibsim> out(new Ibsim(options, std::move(*client)));
  // A Port has timers, so `parley fabric` need not return lost datagrams. ibsim always does.
  static_cast<void>(out->client_->ask(ibsim::ControlType::receive, ibsim::data_with(out->wanted_)));
  if (const auto read = out->read_local(); !read) return tl::unexpected(read.error());
  return out;
}

/// Control messages describe the node, not the port: they have one port GUID for all ports. The subnet may lose
/// datagrams, so the request is repeated.
OrText<wire::mad::Datagram> Ibsim::ask_self(const wire::mad::Datagram& smp) {
  const auto without = [&](const char* what) {
    return tl::unexpected(fmt::format("ibsim '{}': {}", options_.name, what));
  };
  constexpr int tries = 10;
  const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(options_.patience / tries).count();
  for (int i = 0; i < tries; ++i) {
    if (const auto sent = send({.qpn = 0}, smp); !sent || !*sent) return without("cannot send");
    pollfd wait{fd(), POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(patience)) <= 0) continue;
    const auto came = receive();
    in_whole_ = false;
    if (!came || !*came || (*came)->lost) continue;
    wire::mad::Datagram out;
    std::copy((*came)->mad.begin(), (*came)->mad.end(), out.begin());
    return out;
  }
  return without("the node does not answer");
}

OrText<void> Ibsim::read_local() {
  using wire::mad::Method;
  constexpr std::size_t body = 64;
  const std::array<std::uint8_t, 1> here{0};
  auto smp = wire::mad::request<MgmtClass::subn_directed, Method::get>(NodeInfo{}, {.transaction_id = 1});
  if (!wire::mad::set_route(smp, {.path = here})) return tl::unexpected(std::string("no route to the local node"));
  const auto node = ask_self(smp);
  const auto port = client_->ask(ibsim::ControlType::port_info);
  if (!node || !port) return tl::unexpected(node ? port.error() : node.error());
  const auto n = *NodeInfo::parse(ConstBytes(*node).subspan(body));
  mad::LocalPort now;
  now.node_guid = n.get(NodeInfo::node_guid);
  now.port_guid = n.get(NodeInfo::port_guid);
  now.port = n.get(NodeInfo::local_port_num);
  write_bits(now.gid, 64, 64, now.port_guid);
  read_port_info(*port, now);
  local_ = now;
  return {};
}

/// Takes the values that a subnet manager assigns to a port.
void Ibsim::read_port_info(const ibsim::ControlData& port_info, mad::LocalPort& into) {
  const auto p = *PortInfo::parse(port_info);
  into.lid = p.get(PortInfo::lid);
  into.sm_lid = p.get(PortInfo::master_sm_lid);
  into.sm_sl = p.get(PortInfo::master_sm_sl);
  into.lmc = p.get(PortInfo::lmc);
  if (const std::uint8_t timeout = p.get(PortInfo::subnet_time_out); timeout != 0) into.subnet_timeout = timeout;
  write_bits(into.gid, 0, 64, p.get(PortInfo::gid_prefix));
}

bool Ibsim::poll_changed() {
  if (!recheck_.due()) return false;
  const auto port = client_->ask(ibsim::ControlType::port_info, {}, std::chrono::milliseconds(100));
  if (!port) return false;
  mad::LocalPort now = local_;
  read_port_info(*port, now);
  return std::exchange(local_, now) != now;
}

Result<bool> Ibsim::send(const mad::Address& to, ConstBytes mad) {
  ibsim::Data packet{};
  if (mad.size() > packet.mad.size() || mad.size() < 2)
    return fail(Errc::invalid_argument, "ibsim carries management datagrams of at most 256 octets, not {a}",
                static_cast<std::int64_t>(mad.size()));
  const bool smp = wire::mad::is_smp(mad[1]), directed = mad[1] == static_cast<std::uint8_t>(MgmtClass::subn_directed);
  write_bits(packet.dlid, 0, 16, to.lid);
  write_bits(packet.slid, 0, 16, to.source_lid == 0 && directed ? PARLEY_MAD_PERMISSIVE_LID : to.source_lid);
  write_bits(packet.dqp, 0, 32, smp ? 0 : to.qpn);
  write_bits(packet.sqp, 0, 32, smp ? 0 : 1);
  std::copy(mad.begin(), mad.end(), packet.mad.begin());
  const bool sent = client_->send(packet);
  wants_to_send_ = !sent && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS);
  if (!sent && !wants_to_send_) return failed(errno);
  return sent;
}

Result<void> Ibsim::serve(const mad::ServedClass& what) {
  wanted_.classes[what.mgmt_class / 8U] |= static_cast<std::uint8_t>(1U << what.mgmt_class % 8);
  const auto answer = client_->ask(ibsim::ControlType::receive, ibsim::data_with(wanted_));
  if (!answer || ibsim::message_in<ibsim::Receive>(*answer).known != 1)
    return fail(Errc::not_permitted, ibsim_serves_nobody);
  return {};
}

mad::Transport::Received Ibsim::received(std::size_t index) const {
  const ibsim::Data& packet = in_[index];
  Received out;
  out.mad = packet.mad;
  out.lost = read_bits(packet.status, 0, 32) == ibsim::status_undeliverable;
  const auto own = static_cast<std::uint16_t>(read_bits(packet.dlid, 0, 16));
  if (local_.lmc != 0 && !out.lost && mad::is_unicast_lid(own)) out.from.source_lid = own;
  // A returned datagram is as it was sent: the other side is its destination.
  out.from.lid = static_cast<std::uint16_t>(read_bits(out.lost ? packet.dlid : packet.slid, 0, 16));
  out.from.qpn = static_cast<std::uint32_t>(read_bits(out.lost ? packet.dqp : packet.sqp, 0, 32));
  return out;
}

Result<std::optional<mad::Transport::Received>> Ibsim::receive() {
  if (in_next_ == in_count_) {
    if (std::exchange(in_whole_, false)) return std::nullopt;
    std::array<mmsghdr, batch> headers{};
    std::array<iovec, batch> parts{};
    for (std::size_t i = 0; i < batch; ++i) {
      parts[i] = {&in_[i], sizeof(in_[i])};
      headers[i].msg_hdr.msg_iov = &parts[i];
      headers[i].msg_hdr.msg_iovlen = 1;
    }
    const int n = ::recvmmsg(fd(), headers.data(), batch, 0, nullptr);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
    if (n < 0) return failed(errno);
    in_next_ = in_count_ = 0;
    in_whole_ = static_cast<std::size_t>(n) < batch;
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      if (headers[i].msg_len != sizeof(ibsim::Data))
        continue;  // from another process that knows the name: not a
                   // packet
      if (i != in_count_) in_[in_count_] = in_[i];
      ++in_count_;
    }
    if (in_count_ == 0) return std::nullopt;
  }
  return received(in_next_++);
}

}  // namespace parley::mad_driver

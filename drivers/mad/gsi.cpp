// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/mad/gsi.hpp"

#include <algorithm>

#include "base/bits.hpp"

namespace parley::mad_driver {

mad::LocalPort roce_port(const Gid& gid) {
  mad::LocalPort out;
  out.gid = gid;
  out.node_guid = out.port_guid = read_bits(gid, 64, 64);
  return out;
}

GsiTransport::GsiTransport(nic::roce::RoceDevice& device, std::uint8_t gid_index)
    : device_(device), gid_index_(gid_index), local_(roce_port(device.gid(gid_index))) {}

Result<bool> GsiTransport::send(const mad::Address& to, ConstBytes mad) {
  nic::roce::MadOut out;
  if (mad.size() != out.octets.size())
    return fail(Errc::invalid_argument, "QP1 carries management datagrams of 256 octets, not {a}",
                static_cast<std::int64_t>(mad.size()));
  if (!to.grh) return fail(Errc::invalid_argument, "on RoCE, a management datagram needs a destination GID");
  out.source = local_.gid;
  out.sgid_index = gid_index_;
  out.destination = to.grh->gid;
  out.dest_qpn = to.qpn;
  out.q_key = to.qkey;
  out.p_key = to.pkey;
  out.traffic_class = to.grh->traffic_class;
  out.hop_limit = to.grh->hop_limit;
  out.flow_label = to.grh->flow_label;
  std::copy(mad.begin(), mad.end(), out.octets.begin());
  const Result<void> sent = device_.send_mad(out);
  if (sent) return true;
  if (sent.error().code() == Errc::no_space) return false;  // sending the next packets makes room
  return tl::unexpected(sent.error());
}

Result<std::optional<mad::Transport::Received>> GsiTransport::receive() {
  if (!device_.poll_mad(held_)) return std::optional<Received>();
  Received out{.from = {}, .mad = held_.octets};
  out.from.lid = 0;
  out.from.pkey = held_.p_key;
  out.from.qpn = held_.source_qpn;
  out.from.grh = mad::Grh{
      .gid = held_.source, .traffic_class = held_.traffic_class, .hop_limit = 255, .flow_label = held_.flow_label};
  return std::optional(out);
}

}  // namespace parley::mad_driver

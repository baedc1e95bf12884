// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The message headers for one sendmmsg and one recvmmsg of RoCEv2's sockets; reused, because clearing them would cost
// as much as the call.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>

#include "drivers/asio/packet_socket.hpp"
#include "drivers/asio/sockaddr.hpp"

namespace parley::asio_driver {

struct PacketOutbox {
  static constexpr std::size_t messages_max = 64;
  static constexpr std::size_t control_size = 128;

  std::array<mmsghdr, messages_max> headers{};
  std::array<SockAddr, messages_max> to{};
  std::array<iovec, messages_max> pieces{};
  alignas(cmsghdr) std::array<std::array<std::uint8_t, control_size>, messages_max> controls{};
  std::array<std::uint64_t, messages_max> flows{};    // flow whose path header each message has; reused; 0: none
  std::array<std::size_t, messages_max> way_sizes{};  // octets of the control data that belong to the path
  std::array<std::size_t, messages_max> ends{};       // end of the pieces of each message
};

struct PacketInbox {
  static constexpr std::size_t control_size = 256;

  PacketInbox() : octets(receive_batch * receive_size) {
    for (std::size_t i = 0; i < receive_batch; ++i) {
      pieces[i] = {octets.data() + i * receive_size, receive_size};
      clear(i);
    }
  }
  /// Prepares the slot for the next datagram.
  void clear(std::size_t i) {
    msghdr& header = headers[i].msg_hdr;
    header.msg_name = from[i].get();
    header.msg_namelen = sizeof from[i].storage;
    header.msg_iov = &pieces[i];
    header.msg_iovlen = 1;
    header.msg_control = controls[i].data();
    header.msg_controllen = control_size;
    header.msg_flags = 0;
  }

  Bytes octets;
  std::array<mmsghdr, receive_batch> headers{};
  std::array<SockAddr, receive_batch> from{};
  std::array<iovec, receive_batch> pieces{};
  alignas(cmsghdr) std::array<std::array<std::uint8_t, control_size>, receive_batch> controls{};
};

}  // namespace parley::asio_driver

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "preload/places.hpp"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/fnv1a.hpp"
#include "base/gid.hpp"
#include "drivers/asio/descriptor.hpp"
#include "drivers/asio/gid_addresses.hpp"
#include "drivers/asio/packet_socket.hpp"
#include "drivers/secure_env.hpp"

namespace parley::preload {

Result<std::vector<Address>> places() {
  const char* const named = secure_env("PARLEY_VERBS_ADDRESS");
  return asio_driver::gid_addresses(named == nullptr ? "" : named);
}

std::uint64_t device_guid() {
  const auto addresses = places();
  const Gid gid = addresses ? gid_of(addresses->front()) : Gid{};
  return fnv1a(gid) & ~(std::uint64_t{3} << 56);
}

std::uint32_t interface_index(const Address& address) {
  const bool of_loopback = asio_driver::is_loopback_v4(address);
  return asio_driver::interface_of(of_loopback ? Address::loopback(Address::Family::v4, 0) : address);
}

std::uint32_t interface_mtu(std::uint32_t index) {
  constexpr std::uint32_t ethernet = 1500;
  ifreq ask{};
  const asio_driver::Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket.fd < 0 || ::if_indextoname(index, ask.ifr_name) == nullptr) return ethernet;
  return ::ioctl(socket.fd, SIOCGIFMTU, &ask) == 0 && ask.ifr_mtu > 0 ? static_cast<std::uint32_t>(ask.ifr_mtu)
                                                                      : ethernet;
}

}  // namespace parley::preload

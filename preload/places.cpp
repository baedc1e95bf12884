// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "preload/places.hpp"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/fnv1a.hpp"
#include "base/gid.hpp"
#include "drivers/asio/descriptor.hpp"
#include "drivers/asio/packet_socket.hpp"
#include "drivers/secure_env.hpp"
#include "parley/host.hpp"

namespace parley::preload {

namespace {

bool is_loopback(const Address& a) {
  return asio_driver::is_loopback_v4(a) || a == Address::loopback(Address::Family::v6, a.port);
}

Result<std::vector<Address>> named(std::string_view text) {
  std::vector<Address> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const auto found = Host::resolve(std::string(text.substr(0, end)), 0);  // with an interface name as scope, too
    if (!found) return tl::unexpected(found.error());
    out.push_back(found->front());
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

Result<std::vector<Address>> places() {
  if (const char* const text = secure_env("PARLEY_VERBS_ADDRESS"); text != nullptr && *text != '\0') return named(text);
  std::vector<Address> out, looped;
  for (const auto family : {Address::Family::v4, Address::Family::v6})
    for (const auto& place : asio_driver::places_of_interfaces(family))
      (is_loopback(place.address) ? looped : out).push_back(place.address);
  if (out.empty()) out = std::move(looped);
  if (out.empty()) return fail(Errc::bad_address, "no interface of this machine that is up has an address");
  return out;
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

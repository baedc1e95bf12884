// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/asio/gid_addresses.hpp"

#include <sys/socket.h>

#include <algorithm>

#include "drivers/asio/descriptor.hpp"
#include "drivers/asio/packet_socket.hpp"
#include "drivers/asio/sockaddr.hpp"
#include "nic/roce/addresses.hpp"
#include "parley/host.hpp"

namespace parley::asio_driver {

namespace {

int group_of(const Address& a) {
  if (is_loopback_v4(a)) return 3;
  if (a.family == Address::Family::v4) return 0;
  if (is_loopback(a)) return 4;
  return a.is_link_local() ? 2 : 1;
}

/// The source address of the default route. No packet is sent.
std::optional<Address> toward_the_internet() {
  auto found = source_toward(Address::v4(198, 51, 100, 1, 9));  // RFC 5737: a documentation address
  if (!found) return std::nullopt;
  found->port = 0;
  return *found;
}

void add_new(std::vector<Address>& to, const Address& address) {
  if (std::find(to.begin(), to.end(), address) == to.end()) to.push_back(address);
}

Result<std::vector<Address>> resolved(std::string_view text) {
  std::vector<Address> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    std::string_view name = text.substr(0, end);
    if (name.size() > 2 && name.front() == '[' && name.back() == ']') name = name.substr(1, name.size() - 2);
    const auto found = Host::resolve(std::string(name), 0);  // with an interface name as scope, too
    if (!found) return tl::unexpected(found.error());
    add_new(out, found->front());
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

bool can_be_bound(const Address& address) {
  const SockAddr to = to_sockaddr(address);
  const Descriptor socket(::socket(to.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return socket.fd >= 0 && ::bind(socket.fd, to.get(), to.size) == 0;
}

std::vector<Address> in_gid_order(std::vector<Address> found, const std::optional<Address>& first) {
  std::stable_sort(found.begin(), found.end(),
                   [](const Address& a, const Address& b) { return group_of(a) < group_of(b); });
  const auto at = first ? std::find(found.begin(), found.end(), *first) : found.end();
  if (at != found.end()) std::rotate(found.begin(), at, at + 1);
  std::vector<Address> out;
  for (const Address& address : found)
    if (out.size() < nic::roce::Addresses::most) add_new(out, address);
  return out;
}

std::uint16_t lid_of(const Address& address) {
  constexpr unsigned unicast_max = 0xBFFF;
  if (address.family != Address::Family::v4) return 0;
  const unsigned lid = unsigned{address.octets[2]} << 8 | address.octets[3];
  return static_cast<std::uint16_t>(lid <= unicast_max ? lid : 0);
}

std::string why_no_lid(const Address& first) {
  if (lid_of(first) != 0) return {};
  return text_without_port(first) +
         " has no LID: the first address must be an IPv4 address that ends in .0.1 to .191.255";
}

Address with_lid(Address own, std::uint16_t lid) {
  own.octets[2] = static_cast<std::uint8_t>(lid >> 8);
  own.octets[3] = static_cast<std::uint8_t>(lid);
  return own;
}

std::string text_without_port(const Address& address) {
  const std::string text = address.to_string();
  const std::size_t end = text.rfind(':');
  return text.front() == '[' ? text.substr(1, end - 2) : text.substr(0, end);
}

Result<std::vector<Address>> gid_addresses(std::string_view named) {
  if (!named.empty()) return resolved(named);
  std::vector<Address> out;
  for (const auto family : {Address::Family::v4, Address::Family::v6})
    for (const InterfaceAddress& place : interface_addresses(family))
      if (can_be_bound(place.address)) out.push_back(place.address);
  if (out.empty()) return fail(Errc::bad_address, "no interface of this machine that is up has an address");
  return in_gid_order(std::move(out), toward_the_internet());
}

}  // namespace parley::asio_driver

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "preload/link_layer.hpp"

#include <string_view>

#include <fmt/format.h>

#include "base/gid.hpp"
#include "drivers/asio/gid_addresses.hpp"
#include "drivers/secure_env.hpp"

namespace parley::preload {

namespace {

constexpr std::uint8_t hops = 64;

std::string_view link_layer_wanted() {
  const char* const value = secure_env("PARLEY_VERBS_LINK_LAYER");
  return value == nullptr ? "" : value;
}

}  // namespace

bool shows_infiniband() { return link_layer_wanted() == "infiniband"; }

std::string why_no_link_layer(const Address& first) {
  const std::string_view wanted = link_layer_wanted();
  if (wanted.empty() || wanted == "ethernet") return {};
  if (wanted != "infiniband")
    return fmt::format("PARLEY_VERBS_LINK_LAYER is '{}'; it is ethernet or infiniband", wanted);
  return asio_driver::why_no_lid(first);
}

void add_route(AhAttr& attr, const Address& own) {
  if (attr.grh || attr.dlid == 0 || !shows_infiniband()) return;
  attr.grh.emplace();
  attr.grh->dgid = gid_of(asio_driver::with_lid(own, attr.dlid));
  attr.grh->sgid_index = 0;
  attr.grh->hop_limit = hops;
}

}  // namespace parley::preload

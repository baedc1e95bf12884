// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Requests by the names of the table (parley/wire/mad.h), as users write them: "SubnGet" "NodeInfo", "SubnAdmGetTable" "PathRecord" and
// "slid=1", "node_info.num_ports=36", "service_data8[3]=0x10", "modifier=1".
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "mad/transactor.hpp"
#include "wire/mad/layout.hpp"

namespace parley::mad {

struct RpcText {
  Rpc rpc;
  const wire::mad::Layout* attribute = nullptr;
  Bytes body;  ///< of the attribute's length
};

/// Errors: a sentence, with the names that there are.
tl::expected<RpcText, std::string> parse_rpc(std::string_view method, std::string_view attribute);

/// "name=value": into the body, with its bits in the component mask of subnet administration; "modifier=N" is the attribute modifier,
/// "key=N" a B_Key or CC_Key, "oui=N" and "class=N" a vendor's. Returns what is wrong, or nothing.
std::string set_field(RpcText& request, std::string_view assignment);

/// "SubnGet", "SubnSet", "SubnAdmGet", ...: those that have an attribute.
std::vector<std::string> method_names();
/// What a method may ask for: "NodeInfo", ...
std::vector<std::string_view> attributes_of(std::string_view method);

}  // namespace parley::mad

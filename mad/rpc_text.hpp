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

/// A member of an attribute, or of a structure in it, by its name: "lid", "node_info.num_ports", "service_data8[3]".
struct MemberPlace {
  const wire::mad::Field* outer = nullptr;  ///< of the attribute
  const wire::mad::Field* field = nullptr;  ///< the same, or within it
  std::size_t outer_index = 0, index = 0;
  bool indexed = false;  ///< by the name

  /// Where the octets begin that `field` is counted in, and how many they are.
  std::size_t base() const { return field == outer ? 0 : outer->octet() + outer_index * (outer->width / 8U); }
  std::size_t octets(const wire::mad::Layout& layout) const {
    return field == outer ? layout.octets : outer->width / 8U;
  }
};
/// Errors: a sentence, with the names that there are.
tl::expected<MemberPlace, std::string> find_member(const wire::mad::Layout& layout, std::string_view name);
/// A member of `octets`, which are those of the attribute. Errors: a sentence that says what is wrong.
tl::expected<MemberPlace, std::string> set_member(const wire::mad::Layout& layout, MutBytes octets,
                                                  std::string_view name, std::string_view value);

/// "SubnGet", "SubnSet", "SubnAdmGet", ...: those that have an attribute.
std::vector<std::string> method_names();
/// What a method may ask for: "NodeInfo", ...
std::vector<std::string_view> attributes_of(std::string_view method);

}  // namespace parley::mad

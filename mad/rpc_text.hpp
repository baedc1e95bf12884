// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Requests as users write them, with the names of parley/wire/mad.h: "SubnGet" "NodeInfo", "SubnAdmGetTable"
// "PathRecord" and "slid=1", "node_info.num_ports=36", "service_data8[3]=0x10", "modifier=1".
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

/// Errors: a sentence with the names that exist.
tl::expected<RpcText, std::string> parse_rpc(std::string_view method, std::string_view attribute);

/// Applies "name=value": sets the member in the body, and its bits in the component mask for subnet administration.
/// "modifier=N" sets the attribute modifier, "key=N" a B_Key or CC_Key, "class=N" the class of a vendor or application,
/// "oui=N" a vendor's OUI, "version=N" the class version of an application.
/// Returns what is wrong, or nothing.
std::string set_field(RpcText& request, std::string_view assignment);

/// A member of an attribute, or of a structure in it, by its name: "lid", "node_info.num_ports", "service_data8[3]".
struct MemberPlace {
  const wire::mad::Field* outer = nullptr;  ///< of the attribute
  const wire::mad::Field* field = nullptr;  ///< the same, or a member of it
  std::size_t outer_index = 0, index = 0;
  bool indexed = false;  ///< the name has an index

  /// Offset and size in octets of the structure that `field` is a member of.
  std::size_t base() const { return field == outer ? 0 : outer->octet() + outer_index * (outer->width / 8U); }
  std::size_t octets(const wire::mad::Layout& layout) const {
    return field == outer ? layout.octets : outer->width / 8U;
  }
};
/// Errors: a sentence with the names that exist.
tl::expected<MemberPlace, std::string> find_member(const wire::mad::Layout& layout, std::string_view name);
/// Sets a member in `octets`, which are those of the attribute. Errors: a sentence that says what is wrong.
tl::expected<MemberPlace, std::string> set_member(const wire::mad::Layout& layout, MutBytes octets,
                                                  std::string_view name, std::string_view value);

/// "SubnGet", "SubnSet", "SubnAdmGet", ...: those that have an attribute.
std::vector<std::string> method_names();
/// The attributes of a method: "NodeInfo", ...
std::vector<std::string_view> attributes_of(std::string_view method);

}  // namespace parley::mad

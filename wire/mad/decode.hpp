// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Decodes a whole management datagram of any class into its structures, and prints it as text and JSON.
#pragma once
#include <vector>

#include "wire/mad/print.hpp"
#include "wire/mad/rpc.hpp"

namespace parley::wire::mad {

/// A structure, and where it is in the datagram.
struct Part {
  const Layout* layout;
  std::size_t octet;
  ConstBytes view;  ///< into the datagram passed to decode()
};

struct Decoded {
  Part format;                ///< the class's header; the common MAD header if the class or its version is unknown
  std::vector<Part> bodies;   ///< the attribute, or a table's records; none if the attribute is unknown or truncated
  std::vector<Part> details;  ///< DataDetails of notices, decoded by trap number
  std::size_t data = 0;       ///< the octet at which the body begins; 0: the class or its version is unknown
  MgmtClass mgmt_class{};
  Method method{};
  std::uint16_t attribute = 0, status = 0;
  std::uint8_t base_version = 0, class_version = 0;

  bool response() const { return (static_cast<std::uint32_t>(method) & PARLEY_IB_MAD_RESPONSE) != 0; }
};

/// `mad` has 24 octets or more: 256 for a datagram, more for a table reassembled from segments. Errors: truncated below
/// 24 octets.
Result<Decoded> decode(ConstBytes mad);

/// "SubnGetResp(PortInfo)", "SubnAdmGet(attribute 0x00F3)", "class 0x51 method 0x01 (attribute 0x0002)".
std::string title(const Decoded& decoded);
/// The meaning of the status: "busy, invalid attribute, modifier or field", "no records"; empty if it is 0.
std::string status_text(const Decoded& decoded);
/// Names of the members in the component mask of an SA datagram; empty for other classes.
std::vector<std::string> components(const Decoded& decoded);
/// The title, the component names, the status, the header and the body, in lines.
std::string dump(const Decoded& decoded, ConstBytes mad);
std::string dotted(const Decoded& decoded, ConstBytes mad);
Json json_of(const Decoded& decoded, ConstBytes mad);
/// The same in pieces, for tables that are too long to hold as JSON: the members before `records` and those after it.
/// Each record is json_of() of its layout.
struct JsonEnds {
  Json head, tail;
};
JsonEnds json_ends(const Decoded& decoded, ConstBytes mad);

/// The layout of a class's attribute; null if it is unknown. `first` is the first octet of the body: it distinguishes a
/// switch's congestion log from a channel adapter's.
const Layout* attribute_layout(MgmtClass mgmt_class, std::uint16_t attribute, std::uint8_t first = 0);

}  // namespace parley::wire::mad

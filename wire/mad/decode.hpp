// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A whole management datagram of any class: which structures it is made of, and its text and JSON.
#pragma once
#include <vector>

#include "wire/mad/print.hpp"
#include "wire/mad/rpc.hpp"

namespace parley::wire::mad {

/// A structure, and where it is in the datagram.
struct Part {
  const Layout* layout;
  std::size_t octet;
  ConstBytes view;  ///< of the datagram that was given
};

struct Decoded {
  Part format;               ///< the class's header; the common one of a class that is not known
  std::vector<Part> bodies;  ///< the attribute; the records of a table; none if the attribute is not known or cut short
  std::vector<Part> details;  ///< what a notice's trap number says of its details
  std::size_t data = 0;       ///< where the body begins
  MgmtClass mgmt_class{};
  Method method{};
  std::uint16_t attribute = 0, status = 0;
  std::uint8_t base_version = 0, class_version = 0;

  bool response() const { return (static_cast<std::uint32_t>(method) & PARLEY_IB_MAD_RESPONSE) != 0; }
};

/// 24 octets or more; 256 of a datagram, more of a table put together from segments. Errors: truncated below 24 octets.
Result<Decoded> decode(ConstBytes mad);

/// "SubnGetResp(PortInfo)", "SubnAdmGet(attribute 0x00F3)", "class 0x51 method 0x01 (attribute 0x0002)".
std::string title(const Decoded& decoded);
/// Empty if it is 0; else what the status says: "busy, invalid attribute, modifier or field", "no records".
std::string status_text(const Decoded& decoded);
/// Names of the members that a request to subnet administration asks by; empty of other classes.
std::vector<std::string> components(const Decoded& decoded);
/// The title, the header, the body and what is wrong with it, in lines.
std::string dump(const Decoded& decoded, ConstBytes mad);
std::string dotted(const Decoded& decoded, ConstBytes mad);
Json json_of(const Decoded& decoded, ConstBytes mad);
/// The same in pieces, for tables that are too long to be held as JSON: the members in front of `records` and those behind it. A record
/// is json_of() of its layout.
struct JsonEnds {
  Json head, tail;
};
JsonEnds json_ends(const Decoded& decoded, ConstBytes mad);

/// Which of the classes' structures an attribute is; null if none. `first` is the first octet of the body, which tells a
/// switch's congestion log from a channel adapter's.
const Layout* attribute_layout(MgmtClass mgmt_class, std::uint16_t attribute, std::uint8_t first = 0);

}  // namespace parley::wire::mad

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The side that answers: checks requests, and builds the datagrams that answer them. Port::next_request() returns
// requests, Port::post() sends the answers.
#pragma once
#include "mad/packet.hpp"
#include "mad/rmpp.hpp"
#include "wire/mad/rpc.hpp"

namespace parley::mad {

using wire::mad::Datagram;

/// A received request, trap or report. One in segments is reassembled: the headers of the first segment and all of the
/// data.
struct Incoming {
  Address from;
  Bytes mad;
};

struct ParsedRequest {
  const wire::mad::ClassFacts* facts;
  wire::mad::Method method;
  std::uint16_t attribute;
  std::uint32_t modifier;
  ConstBytes body_view;  ///< a part of the parsed datagram
};

/// Why a request cannot be carried out. `status`: for the error reply (IBA §13.4.7); 0: there must be no reply.
struct RequestFault {
  std::uint16_t status;
  std::string_view why;
};

/// The method of the answer (IBA §13.4.5). None: answers, TrapRepress and Send have no answer.
std::optional<wire::mad::Method> response_to(wire::mad::Method method);

/// A valid request has 256 octets, or is a message by RMPP; base version 1; a known class and version; and a method
/// that is defined for its attribute. Attributes and methods of vendor and application
/// classes are not checked.
tl::expected<ParsedRequest, RequestFault> parse_request(ConstBytes mad);

/// The answer with `body`: GetResp for Set, TrapRepress for Trap, otherwise the method's own response. On a directed
/// route the hops are kept and the D bit is set (IBA §14.2.2), so that it returns by the same route. `status`: 15 bits,
/// the class's code above the common one. None: the request is an answer itself, or a trap with an error.
std::optional<Datagram> reply_to(ConstBytes request, ConstBytes body, std::uint16_t status = 0);
/// The request itself, or its first 256 octets, as an answer with a status, without RMPP.
std::optional<Datagram> error_reply(ConstBytes request, std::uint16_t status);

/// An answer of any length, to be sent by RMPP: the request's headers and `data`. Empty if the class has no RMPP.
Bytes long_reply(ConstBytes request, ConstBytes data);

/// An answer with a table, for Port::post(): headers and records, each at a multiple of 8 octets. `size`: octets of one
/// of `records`. Empty if the request is not one of subnet administration.
Bytes table_reply(ConstBytes request, ConstBytes records, std::size_t size);

}  // namespace parley::mad

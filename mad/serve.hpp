// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The side that answers: what is wrong with a request, and the datagrams that answer it. Port::next_request() gives requests,
// Port::post() sends what is made here.
#pragma once
#include "mad/packet.hpp"
#include "mad/rmpp.hpp"
#include "wire/mad/rpc.hpp"

namespace parley::mad {

using wire::mad::Datagram;

/// A request, trap or report, as it came. One that came in segments is whole: the headers of the first segment and all of the data.
struct Incoming {
  Address from;
  Bytes mad;
};

struct ParsedRequest {
  const wire::mad::ClassFacts* facts;
  wire::mad::Method method;
  std::uint16_t attribute;
  std::uint32_t modifier;
  ConstBytes body_view;  ///< of the datagram that was given
};

/// Why a request is not one that can be carried out: the status that its error reply has (IBA §13.4.7), 0 where nothing is to be answered.
struct RequestFault {
  std::uint16_t status;
  std::string_view why;
};

/// The method of the answer (IBA §13.4.5); none: nothing answers an answer, and nothing a Send.
std::optional<wire::mad::Method> response_to(wire::mad::Method method);

/// 256 octets, or a message by RMPP, of base version 1, of a class that is known in the version that it has, with a method that the attribute has.
tl::expected<ParsedRequest, RequestFault> parse_request(ConstBytes mad);

/// The answer with `body`: GetResp of Set, TrapRepress of Trap, else the method's own response. A directed route's goes back the way it
/// came: its hops stay, the D bit is set (IBA §14.2.2). `status` 15 bits: class's code above, the common one below. None to a
/// trap that was wrong, nor to what is itself an answer.
std::optional<Datagram> reply_to(ConstBytes request, ConstBytes body, std::uint16_t status = 0);
/// The request itself, or its first 256 octets, as an answer with a status, without RMPP.
std::optional<Datagram> error_reply(ConstBytes request, std::uint16_t status);

/// An answer of any length of a class that has RMPP, to be sent by it: the request's headers and `data`. Empty if the class has not.
Bytes long_reply(ConstBytes request, ConstBytes data);

/// A table's answer, to be sent whole or by RMPP: headers and records, each from a multiple of 8 octets. `size`: octets of one of `records`.
Bytes table_reply(ConstBytes request, ConstBytes records, std::size_t size);

}  // namespace parley::mad

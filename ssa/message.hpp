// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The messages by which nodes join and leave the tree: datagrams of class 0x2C on QP1. wire/mad/ssa.hpp has their
// members; here they are checked. A request is made by wire::mad::request, and its answer by mad::reply_to.
//
//   Set(SsaHello)       a node to the master: it wants a parent. The answer has a ticket and when to expect the parent
//   Set(SsaParent)      the master to a node: its parent and its backup
//   Get(SsaParent)      the master to a node: which parents has it?
//   Set(SsaHookup)      a node to its parent or backup: this is my end; the answer has the parent's
//   Get(SsaHookup)      a heartbeat: the same once more; both have the epoch of the sender's database
//   Send(SsaHookup)     a parent to a child: there is a new epoch. It has no answer
//   Delete(SsaHookup)   a node to its parent: it has another one
//   Report(SsaChildLost)  a parent to the master: these children are gone
//   Delete(SsaLeave)    a node to the master: it leaves
#pragma once
#include <variant>

#include "ssa/epoch.hpp"
#include "wire/mad/rpc.hpp"
#include "wire/mad/ssa.hpp"

namespace parley::ssa {

using Body = std::variant<wire::mad::SsaHello, wire::mad::SsaParent, wire::mad::SsaHookup, wire::mad::SsaChildLost,
                          wire::mad::SsaLeave>;

struct Message {
  wire::mad::Method method{};
  bool is_answer = false;
  std::uint16_t status = 0;          ///< of an answer; not 0: `body` is what the request had
  std::uint32_t transaction_id = 0;  ///< the lower half of the field: drivers (umad) use the upper one themselves
  Body body;
};

inline Epoch epoch_of(const wire::mad::SsaEpoch& epoch) {
  return {epoch.get(wire::mad::SsaEpoch::incarnation), epoch.get(wire::mad::SsaEpoch::counter)};
}
inline wire::mad::SsaEpoch wire_of(Epoch epoch) {
  return wire::mad::SsaEpoch{}
      .set(wire::mad::SsaEpoch::incarnation, epoch.incarnation)
      .set(wire::mad::SsaEpoch::counter, epoch.counter);
}

/// The SSA_Key.
std::uint64_t key_of(const Message& message);

/// Checks a datagram of class 0x2C: its headers, that the method fits the attribute, and each member that names a node or
/// counts something. Errors: malformed or truncated, with a sentence about the member.
Result<Message> parse_message(ConstBytes mad);

}  // namespace parley::ssa

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/message.hpp"

#include <algorithm>

#include "mad/serve.hpp"

namespace parley::ssa {

namespace {

using namespace wire::mad;

constexpr std::uint8_t roles_known =
    ssa_roles::core | ssa_roles::distribution | ssa_roles::access | ssa_roles::consumer;
constexpr std::uint32_t wait_max_ms = 3'600'000;

/// A port's GID is neither 0 nor a multicast GID (IBA §4.1.1).
bool is_unicast(const Gid& gid) { return gid != Gid{} && gid[0] != 0xFF; }
bool is_unicast_or_none(const Gid& gid) { return gid == Gid{} || is_unicast(gid); }

Result<void> no_gid(std::string_view sentence) { return fail(Errc::malformed, sentence); }

Result<void> check_epoch(const SsaEpoch& epoch) {
  const Epoch e = epoch_of(epoch);
  if (e == Epoch{} || e.is_valid()) return {};
  return fail(Errc::malformed, "the epoch has the incarnation {a} and the counter {b}: both or none is 0",
              e.incarnation, e.counter);
}

Result<void> check_roles(std::uint8_t roles) {
  if (roles != 0 && (roles & ~roles_known) == 0) return {};
  return fail(Errc::malformed, "the roles are {a}, which is none or an unknown one", roles);
}

Result<void> check_wait(std::uint32_t wait) {
  if (wait <= wait_max_ms) return {};
  return fail(Errc::malformed, "the wait is {a} ms; it is at most {b}", wait, wait_max_ms);
}

/// `needed`: the endpoint must be there; otherwise its GID may be 0.
Result<void> check_endpoint(const SsaEndpoint& endpoint, bool needed) {
  const Gid gid = endpoint.get(SsaEndpoint::gid);
  if (needed ? is_unicast(gid) : is_unicast_or_none(gid)) return {};
  return no_gid("the GID of an endpoint is missing, or that of a multicast group");
}

Result<void> check(const SsaHello& hello, const Message&) {
  if (!is_unicast(hello.get(SsaHello::port_gid))) return no_gid("the hello has no GID of its port");
  if (!is_unicast_or_none(hello.get(SsaHello::parent_gid)) || !is_unicast_or_none(hello.get(SsaHello::bad_parent_gid)))
    return no_gid("a parent in the hello has the GID of a multicast group");
  const std::uint16_t p_keys = hello.get(SsaHello::p_key_count);
  if (p_keys > PARLEY_SSA_P_KEYS_MAX)
    return fail(Errc::malformed, "the hello counts {a} P_Keys; there is room for {b}", p_keys, PARLEY_SSA_P_KEYS_MAX);
  if (const auto checked = check_roles(hello.get(SsaHello::roles)); !checked) return checked;
  return check_wait(hello.get(SsaHello::wait));
}

Result<void> check(const SsaParent& parent, const Message& message) {
  if (const auto checked = check_wait(parent.get(SsaParent::wait)); !checked) return checked;
  if (message.method == Method::get && !message.is_answer) return {};
  if (!is_unicast(parent.get(SsaParent::port_gid))) return no_gid("the parent message does not name its node's GID");
  if (const auto checked = check_roles(parent.get(SsaParent::roles)); !checked) return checked;
  const bool assigns = message.method == Method::set && !message.is_answer;
  const SsaEndpoint first = parent.get(SsaParent::parent), second = parent.get(SsaParent::backup);
  if (const auto checked = check_endpoint(first, assigns); !checked) return checked;
  if (const auto checked = check_endpoint(second, false); !checked) return checked;
  const Gid backup = second.get(SsaEndpoint::gid);
  if (backup != Gid{} && backup == first.get(SsaEndpoint::gid)) return no_gid("parent and backup are the same node");
  return {};
}

Result<void> check(const SsaHookup& hookup, const Message&) {
  if (const auto checked = check_wait(hookup.get(SsaHookup::heartbeat)); !checked) return checked;
  return check_endpoint(hookup.get(SsaHookup::endpoint), true);
}

Result<void> check(const SsaChildLost& lost, const Message&) {
  if (!is_unicast(lost.get(SsaChildLost::port_gid)))
    return no_gid("the report of lost children has no GID of its parent");
  const std::uint16_t count = lost.get(SsaChildLost::child_count);
  if (count == 0 || count > PARLEY_SSA_CHILDREN_MAX)
    return fail(Errc::malformed, "the report counts {a} lost children; it has 1 to {b}", count,
                PARLEY_SSA_CHILDREN_MAX);
  for (std::size_t i = 0; i < count; ++i)
    if (!is_unicast(lost.get(SsaChildLost::child, i).get(SsaChild::gid))) return no_gid("a lost child has no GID");
  return {};
}

Result<void> check(const SsaLeave& leave, const Message&) {
  if (is_unicast(leave.get(SsaLeave::port_gid))) return {};
  return no_gid("the node that leaves has no GID");
}

template <class A>
Result<Message> parse_as(ConstBytes body, Message message) {
  const auto parsed = A::parse(body);
  if (!parsed) return tl::unexpected(parsed.error());
  message.body = *parsed;
  if (message.status != 0) return message;
  if (const auto checked = check_epoch(parsed->get(A::epoch)); !checked) return tl::unexpected(checked.error());
  if (const auto checked = check(*parsed, message); !checked) return tl::unexpected(checked.error());
  return message;
}

/// Whether the attribute has this method, or a request to which this method is the answer.
bool fits(StructureId structure, Method method) {
  const auto number = static_cast<std::uint8_t>(method);
  if ((number & PARLEY_IB_MAD_RESPONSE) == 0) return is_legal(structure, MgmtClass::ssa, method);
#define PARLEY_X(name, value, text) \
  if (is_legal(structure, MgmtClass::ssa, Method::name) && mad::response_to(Method::name) == method) return true;
  PARLEY_MAD_METHODS(PARLEY_X)
#undef PARLEY_X
  return false;
}

}  // namespace

std::uint64_t key_of(const Message& message) {
  return std::visit([](const auto& body) { return body.get(std::decay_t<decltype(body)>::ssa_key); }, message.body);
}

Result<Message> parse_message(ConstBytes mad) {
  const ClassFacts& facts = *facts_of_class(static_cast<std::uint32_t>(MgmtClass::ssa));
  const auto header = MadHeader::parse(mad);
  if (!header || mad.size() < PARLEY_IB_MAD_LEN) return fail(Errc::truncated);
  if (header->get(MadHeader::base_version) != PARLEY_IB_MAD_BASE_VERSION ||
      header->get(MadHeader::mgmt_class) != MgmtClass::ssa || header->get(MadHeader::class_version) != facts.version)
    return fail(Errc::malformed, "the datagram is of class {a}, version {b}",
                static_cast<std::int64_t>(header->get(MadHeader::mgmt_class)), header->get(MadHeader::class_version));
  Message message{
      header->get(MadHeader::method), false, 0, static_cast<std::uint32_t>(header->get(MadHeader::transaction_id)), {}};
  message.is_answer = (static_cast<std::uint8_t>(message.method) & PARLEY_IB_MAD_RESPONSE) != 0;
  if (message.is_answer) message.status = header->get(MadHeader::status);
  const std::uint16_t attribute = header->get(MadHeader::attribute_id);
  const ConstBytes body = mad.subspan(facts.data);
#define PARLEY_X(A)                                                               \
  if (attribute == A::attribute) {                                                \
    if (fits(A::structure_id, message.method)) return parse_as<A>(body, message); \
    return fail(Errc::malformed, "attribute {a} has no method {b}", attribute,    \
                static_cast<std::int64_t>(message.method));                       \
  }
  PARLEY_X(SsaHello)
  PARLEY_X(SsaParent)
  PARLEY_X(SsaHookup)
  PARLEY_X(SsaChildLost)
  PARLEY_X(SsaLeave)
#undef PARLEY_X
  return fail(Errc::malformed, "attribute {a} is not a message of the tree", attribute);
}

}  // namespace parley::ssa

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The messages of the tree: what is accepted, and what is refused and why.
#include <gmock/gmock.h>

#include "ssa/message.hpp"

namespace parley::ssa {
namespace message_test {
namespace {

using namespace wire::mad;
using testing::HasSubstr;

constexpr Gid gid(std::uint8_t last) { return {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}; }
constexpr Gid group{0xFF, 0x12};

SsaHello hello() {
  return SsaHello{}
      .set(SsaHello::epoch, wire_of({7, 3}))
      .set(SsaHello::port_gid, gid(1))
      .set(SsaHello::roles, ssa_roles::consumer)
      .set(SsaHello::level, PARLEY_SSA_LEVEL_ANY)
      .set(SsaHello::p_key_count, 2)
      .set_at(SsaHello::p_key, 1, 0x8001)
      .set(SsaHello::tree, "default");
}
SsaParent parent() {
  return SsaParent{}
      .set(SsaParent::port_gid, gid(1))
      .set(SsaParent::roles, ssa_roles::consumer)
      .set(SsaParent::parent, SsaEndpoint{}.set(SsaEndpoint::gid, gid(2)).set(SsaEndpoint::port, 7475))
      .set(SsaParent::backup, SsaEndpoint{}.set(SsaEndpoint::gid, gid(3)));
}
SsaChildLost lost() {
  return SsaChildLost{}
      .set(SsaChildLost::port_gid, gid(2))
      .set(SsaChildLost::child_count, 1)
      .set_at(SsaChildLost::child, 0, SsaChild{}.set(SsaChild::gid, gid(1)));
}

Datagram answer(Datagram mad, Method method, std::uint16_t status = 0) {
  mad[3] = static_cast<std::uint8_t>(method);
  write_bits(mad, 32, 16, status);
  return mad;
}

TEST(SsaMessages, ArriveAsTheyWereSent) {
  const auto message = parse_message(request<MgmtClass::ssa, Method::set>(hello(), {.transaction_id = 0x1122}));
  ASSERT_TRUE(message) << message.error().message();
  EXPECT_EQ(message->method, Method::set);
  EXPECT_FALSE(message->is_answer);
  EXPECT_EQ(message->transaction_id, 0x1122U);
  const auto& body = std::get<SsaHello>(message->body);
  EXPECT_EQ(body, hello());
  EXPECT_EQ(epoch_of(body.get(SsaHello::epoch)), (Epoch{7, 3}));
  EXPECT_EQ(body.get(SsaHello::tree), "default");
  EXPECT_EQ(body.get(SsaHello::p_key, 1), 0x8001);
}

TEST(SsaMessages, AreRequestsAndTheirAnswers) {
  const SsaHookup hookup = SsaHookup{}.set(SsaHookup::endpoint, SsaEndpoint{}.set(SsaEndpoint::gid, gid(1)));
  const SsaLeave leave = SsaLeave{}.set(SsaLeave::port_gid, gid(1));
  const Datagram set_hello = request<MgmtClass::ssa, Method::set>(hello()),
                 get_parent = request<MgmtClass::ssa, Method::get>(SsaParent{}),
                 set_parent = request<MgmtClass::ssa, Method::set>(parent()),
                 set_hookup = request<MgmtClass::ssa, Method::set>(hookup),
                 report = request<MgmtClass::ssa, Method::report>(lost()),
                 delete_leave = request<MgmtClass::ssa, Method::delete_>(leave);
  for (const Datagram& mad :
       {set_hello, get_parent, set_parent, set_hookup, report, delete_leave, answer(set_hello, Method::get_resp),
        answer(set_parent, Method::get_resp), answer(set_hookup, Method::get_resp), answer(report, Method::report_resp),
        answer(delete_leave, Method::delete_resp), answer(get_parent, Method::get_resp, 0x0700)}) {
    const auto message = parse_message(mad);
    EXPECT_TRUE(message) << message.error().message();
    EXPECT_EQ(message->is_answer, (mad[3] & 0x80) != 0);
  }
  EXPECT_EQ(parse_message(answer(get_parent, Method::get_resp, 0x0700))->status, 0x0700);
  EXPECT_THAT(parse_message(answer(get_parent, Method::get_resp)).error().message(), HasSubstr("its node's GID"))
      << "only a refusal may repeat the request";
}

TEST(SsaMessages, AreRefusedWithAReason) {
  const Datagram a_hello = request<MgmtClass::ssa, Method::set>(hello()),
                 a_parent = request<MgmtClass::ssa, Method::set>(parent()),
                 a_hookup = request<MgmtClass::ssa, Method::set>(
                     SsaHookup{}.set(SsaHookup::endpoint, SsaEndpoint{}.set(SsaEndpoint::gid, gid(1)))),
                 a_report = request<MgmtClass::ssa, Method::report>(lost());
  const auto of = [](auto body) { return request<MgmtClass::ssa, Method::set>(body); };
  const auto reported = [](auto body) { return request<MgmtClass::ssa, Method::report>(body); };
  const SsaEndpoint second = SsaEndpoint{}.set(SsaEndpoint::gid, gid(2));
  const std::pair<Datagram, const char*> rows[] = {
      {of(hello().set(SsaHello::port_gid, Gid{})), "the hello has no GID of its port"},
      {of(hello().set(SsaHello::port_gid, group)), "the hello has no GID of its port"},
      {of(hello().set(SsaHello::bad_parent_gid, group)), "a parent in the hello has the GID of a multicast group"},
      {of(hello().set(SsaHello::p_key_count, 33)), "the hello counts 33 P_Keys; there is room for 32"},
      {of(hello().set(SsaHello::roles, 0)), "the roles are 0"},
      {of(hello().set(SsaHello::roles, 16)), "the roles are 16"},
      {of(hello().set(SsaHello::wait, 3'600'001)), "the wait is 3600001 ms; it is at most 3600000"},
      {of(hello().set(SsaHello::epoch, wire_of({0, 3}))), "the incarnation 0 and the counter 3"},
      {of(parent().set(SsaParent::parent, SsaEndpoint{})), "the GID of an endpoint is missing"},
      {of(parent().set(SsaParent::backup, second)), "parent and backup are the same node"},
      {of(parent().set(SsaParent::port_gid, Gid{})), "does not name its node's GID"},
      {of(SsaHookup{}), "the GID of an endpoint is missing"},
      {reported(lost().set(SsaChildLost::child_count, 0)), "the report counts 0 lost children"},
      {reported(lost().set(SsaChildLost::child_count, 13)), "the report counts 13 lost children; it has 1 to 12"},
      {reported(lost().set(SsaChildLost::child_count, 2)), "a lost child has no GID"},
      {reported(lost().set(SsaChildLost::port_gid, Gid{})), "has no GID of its parent"},
      {request<MgmtClass::ssa, Method::delete_>(SsaLeave{}), "the node that leaves has no GID"},
      {answer(a_hello, Method::get), "attribute 4112 has no method 1"},
      {answer(a_parent, Method::report), "attribute 4113 has no method 6"},
      {answer(a_report, Method::get_resp), "attribute 4115 has no method 129"},
      {answer(a_hello, static_cast<Method>(0x82)), "attribute 4112 has no method 130"},
      {answer(a_parent, static_cast<Method>(0x82)), "attribute 4113 has no method 130"},
      {answer(a_hookup, static_cast<Method>(0x82)), "attribute 4114 has no method 130"},
      {answer(a_hookup, static_cast<Method>(0x83)), "attribute 4114 has no method 131"},
      {request<MgmtClass::ssa, Method::get>(ClassPortInfo{}), "attribute 1 is not a message of the tree"},
      {request<MgmtClass::perf, Method::get>(ClassPortInfo{}), "the datagram is of class 4"},
      {request<MgmtClass::application, Method::get>(ClassPortInfo{}, {.mgmt_class = 0x2C, .class_version = 2}),
       "the datagram is of class 44, version 2"},
  };
  for (const auto& [mad, why] : rows) {
    const auto message = parse_message(mad);
    ASSERT_FALSE(message) << why;
    EXPECT_EQ(message.error(), Errc::malformed);
    EXPECT_THAT(message.error().message(), HasSubstr(why));
  }
  EXPECT_EQ(parse_message(ConstBytes(a_hello).first(255)).error(), Errc::truncated);
}

}  // namespace
}  // namespace message_test
}  // namespace parley::ssa

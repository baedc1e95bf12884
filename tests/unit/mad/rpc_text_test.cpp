// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Requests by name: each legal one is found, others are refused with what there is, and members land where the codec has them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mad/rpc_text.hpp"
#include "wire/mad/component_mask.hpp"
#include "wire/mad/pm.hpp"
#include "wire/mad/sa.hpp"

namespace parley::mad {
namespace rpc_text_test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using wire::mad::ComponentMask;
using wire::mad::Method;
using wire::mad::MgmtClass;
using wire::mad::NodeInfo;
using wire::mad::NodeRecord;
using wire::mad::PathRecord;
using wire::mad::PortInfo;
using wire::mad::ServiceRecord;

TEST(MadRpcText, EveryLegalRequestHasAName) {
  std::size_t found = 0;
  for (const std::string& method : method_names())
    for (const std::string_view attribute : attributes_of(method)) {
      const auto request = parse_rpc(method, attribute);
      ASSERT_TRUE(request) << method << " " << attribute << ": " << request.error();
      EXPECT_EQ(request->attribute->name, attribute);
      EXPECT_EQ(request->body.size(), request->attribute->octets);
      ++found;
    }
  std::size_t legal = 0;
  for (const auto& row : wire::mad::legal_rows) legal += static_cast<std::size_t>(std::popcount(row.methods));
  EXPECT_EQ(found, legal);
}

TEST(MadRpcText, TheNameSaysClassMethodAndAttribute) {
  const auto set = parse_rpc("SubnSet", "PortInfo"), table = parse_rpc("SubnAdmGetTable", "PathRecord"),
             trap = parse_rpc("SubnTrapRepress", "Notice");
  ASSERT_TRUE(set && table && trap);
  EXPECT_EQ(set->rpc.mgmt_class, MgmtClass::subn);
  EXPECT_EQ(set->rpc.method, Method::set);
  EXPECT_EQ(set->rpc.attribute, PortInfo::attribute);
  EXPECT_EQ(table->rpc.mgmt_class, MgmtClass::subn_adm);
  EXPECT_EQ(table->rpc.method, Method::get_table);
  EXPECT_EQ(table->rpc.attribute, PathRecord::attribute);
  EXPECT_EQ(trap->rpc.method, Method::trap_repress);
}

TEST(MadRpcText, AClassIsOneOfItsRange) {
  const auto set = [](const char* method, std::initializer_list<const char*> words, Rpc& out) {
    auto request = parse_rpc(method, "ClassPortInfo");
    std::string wrong;
    for (const char* word : words) wrong += set_field(*request, word);
    out = request->rpc;
    return wrong;
  };
  Rpc rpc;
  EXPECT_EQ(set("ApplicationGet", {"class=0x2F", "version=3"}, rpc), "");
  EXPECT_EQ(rpc.mgmt_class, MgmtClass::application);
  EXPECT_EQ(rpc.class_number, 0x2F);
  EXPECT_EQ(rpc.class_version, 3);
  EXPECT_EQ(set("VendGet", {"oui=0x1405", "class=0x32"}, rpc), "");
  EXPECT_EQ(rpc.mgmt_class, MgmtClass::vendor_oui) << "whose headers are longer";
  EXPECT_EQ(set("VendGet", {"class=0x0A"}, rpc), "");
  EXPECT_EQ(rpc.mgmt_class, MgmtClass::vendor);
  EXPECT_EQ(set("VendGet", {"class=0x50"}, rpc), "class must be 0x09 to 0x0F or 0x30 to 0x4F, not '0x50'");
  EXPECT_EQ(set("ApplicationGet", {"class=0x21"}, rpc),
            "class must be 0x10 to 0x2F, not '0x21': its requests begin with CC");
  EXPECT_EQ(set("VendGet", {"class=4294967305"}, rpc), "class must be 0x09 to 0x0F or 0x30 to 0x4F, not '4294967305'");
  EXPECT_EQ(set("ApplicationGet", {"version=256"}, rpc), "version must be a number from 0 to 255, not '256'");
}

TEST(MadRpcText, OthersAreRefusedWithWhatThereIs) {
  EXPECT_THAT(parse_rpc("SubnSet", "NodeInfo").error(),
              HasSubstr("SubnSet has no attribute 'NodeInfo'; there are: GuidInfo"));
  EXPECT_THAT(parse_rpc("SubnFetch", "NodeInfo").error(), HasSubstr("no request 'SubnFetch'; there are: SubnGet"));
  EXPECT_THAT(parse_rpc("SubnGetResp", "NodeInfo").error(), HasSubstr("no request"));
  EXPECT_TRUE(parse_rpc("subnget", "nodeinfo"));
  EXPECT_THAT(method_names(), Contains("SubnAdmGetTable"));
}

TEST(MadRpcText, MembersLandWhereTheCodecHasThem) {
  auto request = parse_rpc("SubnAdmGetTable", "PathRecord");
  for (const char* word :
       {"slid=1", "dlid=0x3", "dgid=fe80::1", "sgid=0002:c903:0000:1491", "reversible=yes", "num_path=1", "mtu=2048"})
    EXPECT_EQ(set_field(*request, word), "") << word;
  const PathRecord record = *PathRecord::parse(request->body);
  EXPECT_EQ(record.get(PathRecord::slid), 1);
  EXPECT_EQ(record.get(PathRecord::dlid), 3);
  EXPECT_EQ(record.get(PathRecord::dgid)[15], 1);
  EXPECT_EQ(record.get(PathRecord::sgid)[15], 0x91);
  EXPECT_TRUE(record.get(PathRecord::reversible));
  EXPECT_EQ(name_of(wire::mad::Kind::mtu, static_cast<std::uint32_t>(record.get(PathRecord::mtu))), "2048");
  EXPECT_EQ(request->rpc.component_mask,
            ComponentMask<PathRecord>(PathRecord::slid, PathRecord::dlid, PathRecord::dgid, PathRecord::sgid,
                                      PathRecord::reversible, PathRecord::num_path, PathRecord::mtu)
                .bits());
}

TEST(MadRpcText, NestedMembersAndElementsHaveTheirOwnBits) {
  auto request = parse_rpc("SubnAdmGetTable", "NodeRecord");
  EXPECT_EQ(set_field(*request, "node_info.num_ports=36"), "");
  const NodeRecord record = *NodeRecord::parse(request->body);
  EXPECT_EQ(record.get(NodeRecord::node_info).get(NodeInfo::num_ports), 36);
  EXPECT_EQ(request->rpc.component_mask,
            ComponentMask<NodeRecord>().add(NodeRecord::node_info, NodeInfo::num_ports).bits());
  auto service = parse_rpc("SubnAdmGet", "ServiceRecord");
  EXPECT_EQ(set_field(*service, "service_data8[3]=0x10"), "");
  EXPECT_EQ(ServiceRecord::parse(service->body)->get(ServiceRecord::service_data8, 3), 0x10);
  EXPECT_EQ(service->rpc.component_mask,
            ComponentMask<ServiceRecord>().add_element(ServiceRecord::service_data8, 3).bits());
}

TEST(MadRpcText, WhatCannotBeSetIsSaid) {
  auto request = parse_rpc("SubnGet", "PortInfo");
  EXPECT_EQ(set_field(*request, "modifier=7"), "");
  EXPECT_EQ(request->rpc.modifier, 7U);
  EXPECT_EQ(request->rpc.component_mask, 0U);
  EXPECT_THAT(set_field(*request, "lidd=7"), HasSubstr("PortInfo has no member 'lidd'; there are: m_key"));
  EXPECT_EQ(set_field(*request, "lid=65536"), "lid must be a number from 0 to 65535, not '65536'");
  EXPECT_THAT(set_field(*request, "port_state=on"), HasSubstr("or one of: no change, down, initialize, armed, active"));
  EXPECT_EQ(set_field(*request, "port_state=active"), "");
  EXPECT_EQ(set_field(*request, "link_width_enabled=1x+4x"), "");
  EXPECT_EQ(PortInfo::parse(request->body)->get(PortInfo::link_width_enabled), 3);
  EXPECT_THAT(set_field(*request, "lid"), HasSubstr("NAME=VALUE"));
  auto record = parse_rpc("SubnAdmGet", "NodeRecord");
  EXPECT_THAT(set_field(*record, "node_info=5"), HasSubstr("node_info is a structure"));
  EXPECT_THAT(set_field(*record, "lid.x=5"), HasSubstr("lid of NodeRecord has no members"));
  auto service = parse_rpc("SubnAdmGet", "ServiceRecord");
  EXPECT_THAT(set_field(*service, "service_data8[16]=1"), HasSubstr("elements 0 to 15"));
}

}  // namespace
}  // namespace rpc_text_test
}  // namespace parley::mad

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Requests and component masks are made by name; what the specification does not have is no program.
#include <gtest/gtest.h>

#include "wire/mad/cm.hpp"
#include "wire/mad/component_mask.hpp"
#include "wire/mad/gs.hpp"
#include "wire/mad/pm.hpp"
#include "wire/mad/sa.hpp"
#include "wire/mad/smp.hpp"

namespace parley::wire::mad::mad_rpc_test {
namespace {

template <class A, MgmtClass C, Method M>
concept Compiles = requires(A body) {
  request<C, M>(body);
};
template <class Record, class Of>
concept Masks = requires(ComponentMask<Record> mask, Of member) {
  mask.add(member);
};
template <class A, class Of, class V>
concept Sets = requires(A body, Of member, V value) {
  body.set(member, value);
};

// IBA §14.2.5, §15.2.5, §16.1.
static_assert(Compiles<NodeInfo, MgmtClass::subn, Method::get>);
static_assert(Compiles<NodeInfo, MgmtClass::subn_directed, Method::get>);
static_assert(!Compiles<NodeInfo, MgmtClass::subn, Method::set>, "NodeInfo cannot be set");
static_assert(!Compiles<NodeInfo, MgmtClass::subn_adm, Method::get>, "subnet administration has NodeRecord");
static_assert(Compiles<PortInfo, MgmtClass::subn, Method::set>);
static_assert(Compiles<PathRecord, MgmtClass::subn_adm, Method::get_table>);
static_assert(!Compiles<PathRecord, MgmtClass::subn_adm, Method::set>, "paths are not set");
static_assert(!Compiles<PathRecord, MgmtClass::subn, Method::get>);
static_assert(Compiles<MultiPathRecord, MgmtClass::subn_adm, Method::get_multi>);
static_assert(!Compiles<MultiPathRecord, MgmtClass::subn_adm, Method::get>);
static_assert(Compiles<TraceRecord, MgmtClass::subn_adm, Method::get_trace_table>);
static_assert(Compiles<ServiceRecord, MgmtClass::subn_adm, Method::delete_>);
static_assert(!Compiles<NodeRecord, MgmtClass::subn_adm, Method::delete_>);
static_assert(Compiles<CmReq, MgmtClass::comm_mgt, Method::send>);
static_assert(!Compiles<CmReq, MgmtClass::comm_mgt, Method::get>);
static_assert(Compiles<PortCounters, MgmtClass::perf, Method::set>);
static_assert(!Compiles<PortSamplesResult, MgmtClass::perf, Method::set>);
static_assert(!Compiles<PortInfo, MgmtClass::subn, Method::get_resp>, "a response is not a request");
static_assert(!Compiles<LidPortBlock, MgmtClass::subn, Method::get>, "a part of an attribute is none");
// Members know whose they are, and of what type.
static_assert(Masks<PathRecord, decltype(PathRecord::sgid)>);
static_assert(!Masks<PathRecord, decltype(NodeRecord::lid)>, "a member of another record");
static_assert(Sets<PathRecord, decltype(PathRecord::sgid), Gid>);
static_assert(!Sets<PathRecord, decltype(PathRecord::sgid), int>);
static_assert(!Sets<PortInfo, decltype(PortInfo::port_state), int>, "an enumeration takes its own values");
static_assert(!Sets<PathRecord, decltype(PortInfo::lid), int>);

// IBA §13.4.4: classes and ranges of classes.
constexpr bool is_row(std::uint32_t mgmt_class, MgmtClass row) {
  const ClassFacts* facts = facts_of_class(mgmt_class);
  return facts != nullptr && facts->mgmt_class == row;
}
static_assert(is_row(0x09, MgmtClass::vendor) && is_row(0x0F, MgmtClass::vendor));
static_assert(is_row(0x10, MgmtClass::application) && is_row(0x2F, MgmtClass::application));
static_assert(is_row(0x20, MgmtClass::application) && is_row(0x22, MgmtClass::application));
static_assert(is_row(0x21, MgmtClass::cc), "Annex A10: among the applications");
static_assert(is_row(0x30, MgmtClass::vendor_oui) && is_row(0x4F, MgmtClass::vendor_oui));
static_assert(facts_of_class(0) == nullptr && facts_of_class(0x02) == nullptr && facts_of_class(0x50) == nullptr);
static_assert(facts_of_class(0x80) == nullptr && facts_of_class(0x82) == nullptr && facts_of_class(0x90) == nullptr);
static_assert(!has_oui(0x2F) && has_oui(0x30), "IBA §16.6.1: an application's MAD has no OUI");

TEST(MadRequests, AreWrittenWhereTheirClassHasThem) {
  const Datagram mad = request<MgmtClass::subn_adm, Method::get_table>(
      PathRecord{}.set(PathRecord::num_path, 3),
      {.transaction_id = 0x1122334455667788, .attribute_modifier = 9, .key = 0xAB, .component_mask = 0x8C});
  const Bytes head(mad.begin(), mad.begin() + 24);
  EXPECT_EQ(head, (Bytes{1,    3,    2,    0x12, 0, 0,    0, 0, 0x11, 0x22, 0x33, 0x44,
                         0x55, 0x66, 0x77, 0x88, 0, 0x35, 0, 0, 0,    0,    0,    9}));
  EXPECT_EQ(mad[43], 0xAB);  // SM_Key
  EXPECT_EQ(mad[55], 0x8C);  // component mask
  EXPECT_EQ(mad[56 + 49], 3);
  const Datagram smp = request<MgmtClass::subn, Method::get>(PortInfo{}, {.attribute_modifier = 1, .key = 5});
  EXPECT_EQ(smp[31], 5);
  EXPECT_EQ(smp[17], 0x15);
  const Datagram vendor = request<MgmtClass::vendor_oui, Method::get>(OfaSysStatPing{}.set(OfaSysStatPing::cookie, 1),
                                                                      {.mgmt_class = 0x33, .oui = 0x001405});
  EXPECT_EQ(vendor[1], 0x33);
  EXPECT_EQ(vendor[38], 0x14);
  EXPECT_EQ(vendor[40 + 7], 1);
  const auto info = ClassPortInfo{}.set(ClassPortInfo::base_version, 9);
  const Datagram first = request<MgmtClass::application, Method::get>(info);
  EXPECT_EQ(first[1], 0x10);
  EXPECT_EQ(first[2], 1);
  EXPECT_EQ(first[24], 9);
}

TEST(MadRequests, CarryARouteOf63Hops) {
  Datagram smp = request<MgmtClass::subn_directed, Method::get>(NodeInfo{});
  const Bytes longest(64, 3), beyond(65, 3);
  ASSERT_TRUE(set_route(smp, {.path = longest}));
  EXPECT_EQ(smp[1], 0x81);
  EXPECT_EQ(smp[6], 0);
  EXPECT_EQ(smp[7], 63);
  EXPECT_EQ(smp[32], 0xFF);  // DrSLID: permissive
  EXPECT_EQ(smp[128 + 63], 3);
  EXPECT_EQ(smp[192], 0);
  const Datagram before = smp;
  EXPECT_EQ(set_route(smp, {.path = beyond}).error(), Errc::invalid_argument);
  EXPECT_EQ(set_route(smp, {}).error(), Errc::invalid_argument);
  EXPECT_EQ(smp, before);
  smp[4] = 0x80;  // as it comes back: D and a hop pointer
  smp[6] = 64;
  ASSERT_TRUE(set_route(smp, {.path = Bytes{0}, .source_lid = 7, .destination_lid = 0x102}));
  EXPECT_EQ(smp[4], 0);
  EXPECT_EQ(smp[6], 0);
  EXPECT_EQ(smp[7], 0);
  EXPECT_EQ(smp[33], 7);
  EXPECT_EQ(smp[34], 1);
  EXPECT_EQ(smp[129], 0);
}

// IBA §15.4.4.
TEST(ComponentMasks, AreMadeByNaming) {
  EXPECT_EQ(ComponentMask<PathRecord>(PathRecord::dgid, PathRecord::sgid, PathRecord::reversible).bits(), 0x80CU);
  EXPECT_EQ(ComponentMask<PathRecord>(PathRecord::service_id).bits(), 0x3U);
  EXPECT_EQ(ComponentMask<NodeRecord>(NodeRecord::node_info).bits(), 0x3FFCU);
  EXPECT_EQ(ComponentMask<NodeRecord>().add(NodeRecord::node_info, NodeInfo::node_type).bits(), 0x10U);
  EXPECT_EQ(ComponentMask<ServiceRecord>(ServiceRecord::service_data64).bits(), 3ULL << 35);
  EXPECT_EQ(ComponentMask<ServiceRecord>().add_element(ServiceRecord::service_data8, 15).bits(), 1ULL << 22);
  EXPECT_EQ(ComponentMask<GuidInfoRecord>().add(GuidInfoRecord::guid_info, GuidInfo::guid_block).bits(), 0x10U);
  EXPECT_EQ(ComponentMask<PortInfoRecord>().add(PortInfoRecord::port_info, PortInfo::link_speed_ext_enabled).bits(),
            1ULL << 57);
}

TEST(ComponentMasks, FollowWhatAQuerySets) {
  Query<NodeRecord> query;
  query.set(NodeRecord::lid, 5).set(NodeRecord::node_info, NodeInfo::node_type, NodeType::switch_);
  EXPECT_EQ(query.component_mask(), 0x11U);
  EXPECT_EQ(query.record().get(NodeRecord::node_info).get(NodeInfo::node_type), NodeType::switch_);
  EXPECT_EQ(query.record().octets()[1], 5);
}

}  // namespace
}  // namespace parley::wire::mad::mad_rpc_test

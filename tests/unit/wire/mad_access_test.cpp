// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Structures of management datagrams are read and written member by member, and keep what they do not know.
#include <gtest/gtest.h>

#include "base/rng.hpp"
#include "tests/fuzz/mad_copy.hpp"
#include "wire/ib/cm.hpp"
#include "wire/mad/cm.hpp"
#include "wire/mad/component_mask.hpp"
#include "wire/mad/pm.hpp"
#include "wire/mad/sa.hpp"

namespace parley::wire::mad::mad_access_test {
namespace {

Bytes drawn(Rng& rng, std::size_t size) {
  Bytes out(size);
  for (std::uint8_t& octet : out) octet = static_cast<std::uint8_t>(rng.next());
  return out;
}

TEST(MadStructures, KeepEveryBitOfRandomOctets) {
  Rng rng(1);
  for (const Layout* layout : all_layouts()) {
    for (int i = 0; i < 20; ++i) {
      const Bytes in = drawn(rng, layout->octets), ground = drawn(rng, layout->octets);
      Bytes out = ground;
      fuzz::copy_by_member(*layout, in, out);
      EXPECT_EQ(out, in) << layout->name;
    }
  }
}

/// A write changes the bits of its member and none beside them.
TEST(MadStructures, WriteOneMemberAndNoOther) {
  Rng rng(2);
  for (const Layout* layout : all_layouts()) {
    const Bytes before = drawn(rng, layout->octets);
    for (const Field& field : layout->fields) {
      if (field.reserved() || field.nested != nullptr || field.kind == Kind::gid) continue;
      const std::size_t index = field.count - 1U;
      Bytes after = before;
      const std::uint64_t value = rng.next();
      put_number(after, field, index, value);
      const std::uint64_t kept = field.width == 64 ? value : value & ((std::uint64_t{1} << field.width) - 1);
      EXPECT_EQ(number_at(after, field, index), kept) << layout->name << " " << field.name;
      put_number(after, field, index, number_at(before, field, index));
      EXPECT_EQ(after, before) << layout->name << " " << field.name;
    }
  }
}

TEST(MadStructures, NameTheirMembersAndTheirValues) {
  PortInfo info;
  info.set(PortInfo::lid, 0x1234).set(PortInfo::port_state, PortState::active).set(PortInfo::lmc, 0xFF);
  info.set(PortInfo::capability_mask, port_capability::is_sm | port_capability::trap);
  EXPECT_EQ(info.octets()[16], 0x12);
  EXPECT_EQ(info.octets()[32], 0x04);
  EXPECT_EQ(info.octets()[34], 0x07);  // three bits: cut
  EXPECT_EQ(info.octets()[23], 0x0A);
  EXPECT_EQ(info.get(PortInfo::port_state), PortState::active);
  EXPECT_FALSE(info.get(PortInfo::client_reregister));
  EXPECT_TRUE(PortInfo::parse(info.octets()) == info);
}

TEST(MadStructures, HoldOtherStructuresArraysAndText) {
  NodeRecord record;
  record.set(NodeRecord::node_info, NodeInfo{}.set(NodeInfo::num_ports, 36));
  EXPECT_EQ(record.octets()[4 + 3], 36);
  EXPECT_EQ(record.get(NodeRecord::node_info).get(NodeInfo::num_ports), 36);
  NodeDescription description;
  description.set(NodeDescription::node_string, std::string(64, 'x'));
  EXPECT_EQ(description.get(NodeDescription::node_string), std::string(64, 'x'));  // no zero behind it
  description.set(NodeDescription::node_string, "leaf 1");
  EXPECT_EQ(description.get(NodeDescription::node_string), "leaf 1");
  SlToVlMappingTable table;
  table.set_at(SlToVlMappingTable::sl_to_vl, 3, 7);
  EXPECT_EQ(table.octets()[1], 0x07);
  EXPECT_EQ(table.get(SlToVlMappingTable::sl_to_vl, 3), 7);
  RandomForwardingTable random;
  random.set_at(RandomForwardingTable::lid_port_block, 1, LidPortBlock{}.set(LidPortBlock::lid, 9));
  EXPECT_EQ(random.octets()[5], 9);
}

TEST(MadStructures, RefuseOctetsThatAreTooFew) {
  EXPECT_EQ(PortInfo::parse(Bytes(63)).error(), Errc::truncated);
  EXPECT_TRUE(PortInfo::parse(Bytes(64)));
}

/// The same members under the names of the CM; its messages were held against Linux.
TEST(MadStructures, AgreeWithTheCodecOfTheCm) {
  Rng rng(3);
  for (int i = 0; i < 50; ++i) {
    Bytes mad = drawn(rng, PARLEY_IB_MAD_LEN);
    ib::MadHeader{.mgmt_class = 7, .class_version = 2, .method = 3, .attribute_id = 0x10}.emit(mad);
    const auto req = std::get<ib::CmReq>(ib::CmMessage::parse(mad)->body);
    const CmReq ours = *CmReq::parse(ConstBytes(mad).subspan(24));
    EXPECT_EQ(ours.get(CmReq::local_comm_id), req.local_comm_id);
    EXPECT_EQ(ours.get(CmReq::ece_vendor), req.ece_vendor);
    EXPECT_EQ(ours.get(CmReq::service_id), req.service_id);
    EXPECT_EQ(static_cast<unsigned>(ours.get(CmReq::transport_service)), static_cast<unsigned>(req.service));
    EXPECT_EQ(ours.get(CmReq::srq), req.srq);
    EXPECT_EQ(static_cast<unsigned>(ours.get(CmReq::extended_transport)), req.extended_service);
    EXPECT_EQ(static_cast<unsigned>(ours.get(CmReq::path_packet_mtu)), req.path_mtu);
    EXPECT_EQ(ours.get(CmReq::alternate_path).get(CmPath::dgid), req.alternate.remote_gid);
    EXPECT_EQ(ours.get(CmReq::alternate_path).get(CmPath::local_ack_timeout), req.alternate.local_ack_timeout);
    mad[17] = 0x18;
    const auto rep = std::get<ib::CmSidrRep>(ib::CmMessage::parse(mad)->body);
    const CmSidrRep sidr = *CmSidrRep::parse(ConstBytes(mad).subspan(24));
    EXPECT_EQ(sidr.get(CmSidrRep::qpn), rep.qpn);
    EXPECT_EQ(sidr.get(CmSidrRep::service_id), rep.service_id);
    EXPECT_EQ(sidr.get(CmSidrRep::q_key), rep.q_key);
    const ConstBytes data = sidr.get(CmSidrRep::private_data);
    EXPECT_TRUE(std::equal(data.begin(), data.end(), rep.private_data.begin(), rep.private_data.end()));
  }
}

}  // namespace
}  // namespace parley::wire::mad::mad_access_test

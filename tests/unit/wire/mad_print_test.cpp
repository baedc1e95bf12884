// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Management datagrams as people and programs see them: reviewed texts of made ones and of some of a real fabric, and any octets.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <set>

#include "base/rng.hpp"
#include "tests/unit/reviewed.hpp"
#include "wire/ib/packet.hpp"
#include "wire/mad/decode.hpp"
#include "wire/mad/pm.hpp"
#include "wire/mad/sa.hpp"
#include "wire/mad/smp.hpp"
#include "wire/pcap.hpp"

namespace parley::wire::mad::mad_print_test {
namespace {

std::string real_text(double value) { return fmt::format("{:.3f}", value); }

std::string shown(ConstBytes mad) {
  const auto decoded = decode(mad);
  if (!decoded) return decoded.error().message() + "\n";
  return dump(*decoded, mad) + "--\n" + dotted(*decoded, mad) + "--\n" + json_of(*decoded, mad).dump(real_text, 1) +
         "\n";
}

Datagram as_response(Datagram mad, std::uint16_t status = 0) {
  mad[3] |= PARLEY_IB_MAD_RESPONSE;
  mad[4] = static_cast<std::uint8_t>(status >> 8);
  mad[5] = static_cast<std::uint8_t>(status);
  return mad;
}

PortInfo port_info() {
  PortInfo info;
  info.set(PortInfo::gid_prefix, 0xFE80000000000000).set(PortInfo::lid, 5).set(PortInfo::master_sm_lid, 1);
  info.set(PortInfo::capability_mask, port_capability::is_sm | port_capability::trap | 1U);
  info.set(PortInfo::link_width_supported, link_width::x1 | link_width::x4)
      .set(PortInfo::link_width_active, link_width::x4);
  info.set(PortInfo::port_state, PortState::active).set(PortInfo::port_physical_state, PortPhysicalState::link_up);
  info.set(PortInfo::neighbor_mtu, Mtu::m4096).set(PortInfo::mtu_cap, static_cast<Mtu>(9));
  info.set(PortInfo::subnet_time_out, 18).set(PortInfo::resp_time_value, 20).set(PortInfo::m_key_lease_period, 60);
  info.octets()[34] |= 0x38;  // reserved
  return info;
}

TEST(MadText, OfAPortInfoIsAsReviewed) {
  expect_as_reviewed("mad_port_info.txt", shown(as_response(request<MgmtClass::subn, Method::get>(
                                              port_info(), {.transaction_id = 7, .attribute_modifier = 1}))));
}

TEST(MadText, OfATableOfRecordsIsAsReviewed) {
  Datagram mad = as_response(request<MgmtClass::subn_adm, Method::get_table>(LinkRecord{}));
  for (int i = 0; i < 3; ++i)
    LinkRecord{}
        .set(LinkRecord::from_lid, static_cast<std::uint16_t>(i + 1))
        .set(LinkRecord::to_port, 9)
        .emit(MutBytes(mad).subspan(56 + 8U * static_cast<unsigned>(i)));
  auto header = *SaHeader::parse(mad);
  auto rmpp = header.get(SaHeader::rmpp_header);
  rmpp.set(RmppHeader::rmpp_version, 1).set(RmppHeader::rmpp_type, RmppType::data).set(RmppHeader::data1, 1);
  rmpp.set(RmppHeader::rmpp_flags, rmpp_flags::active | rmpp_flags::first | rmpp_flags::last);
  rmpp.set(RmppHeader::data2, 20 + 2 * 8);  // two records: the third is of an earlier use of the buffer
  header.set(SaHeader::rmpp_header, rmpp).set(SaHeader::attribute_offset, 1).emit(mad);
  expect_as_reviewed("mad_link_records.txt", shown(mad));
}

// IBA §15.2.1.1: records that would overlap are none, nor are any when the offset is 0.
TEST(MadText, TakesNoRecordsThatOverlap) {
  Datagram mad = as_response(request<MgmtClass::subn_adm, Method::get_table>(NodeRecord{}));
  for (const auto& [offset, records] : {std::pair{0, 0}, {13, 0}, {14, 1}, {25, 1}}) {
    auto header = *SaHeader::parse(mad);
    header.set(SaHeader::attribute_offset, static_cast<std::uint16_t>(offset)).emit(mad);
    EXPECT_EQ(decode(mad)->bodies.size(), static_cast<std::size_t>(records)) << offset;
  }
  Bytes table(mad.begin(), mad.end());
  table.resize(56 + 3 * 112 - 4);  // the last has no padding behind it
  table[45] = 14;
  EXPECT_EQ(decode(table)->bodies.size(), 3U);
  table.resize(table.size() - 1);
  EXPECT_EQ(decode(table)->bodies.size(), 2U);
  table[25] = 1;  // RMPP DATA, the second segment: it begins in the middle of a record
  table[26] = 1;
  table[31] = 2;
  EXPECT_TRUE(decode(table)->bodies.empty());
}

TEST(MadText, OfATrapIsAsReviewed) {
  Notice notice;
  notice.set(Notice::is_generic, true)
      .set(Notice::notice_type, NoticeType::urgent)
      .set(Notice::node_type, NodeType::switch_);
  notice.set(Notice::trap_number, 129).set(Notice::issuer_lid, 2);
  notice.set(Notice::data_details,
             Trap129Details{}.set(Trap129Details::lid, 2).set(Trap129Details::port_num, 17).octets());
  expect_as_reviewed("mad_trap.txt", shown(request<MgmtClass::subn, Method::trap>(notice)));
}

TEST(MadText, SaysWhatTheStatusIs) {
  const auto status = [](const Datagram& mad) { return status_text(*decode(mad)); };
  const Datagram path = request<MgmtClass::subn_adm, Method::get>(PathRecord{});
  EXPECT_EQ(status(path), "");
  EXPECT_EQ(status(as_response(path, 0x0300)), "no records");
  EXPECT_EQ(status(as_response(path, 0x001D)), "busy, invalid attribute, modifier or field");
  EXPECT_EQ(status(as_response(path, 0xFF00)), "0xFF00");
  const Datagram smp = request<MgmtClass::subn_directed, Method::get>(NodeInfo{});
  EXPECT_EQ(status(as_response(smp, 0x8000)), "");  // D
  EXPECT_EQ(status(as_response(smp, 0x800C)), "attribute without such a method");
}

TEST(MadText, NamesWhatIsNotKnownByItsNumber) {
  Datagram mad = request<MgmtClass::perf, Method::get>(PortCounters{});
  EXPECT_EQ(title(*decode(mad)), "PerformanceGet(PortCounters)");
  mad[17] = 0xEE;
  EXPECT_EQ(title(*decode(mad)), "PerformanceGet(attribute 0x00EE)");
  EXPECT_TRUE(decode(mad)->bodies.empty());
  mad[3] = 0x70;
  EXPECT_EQ(title(*decode(mad)), "Performance method 0x70(attribute 0x00EE)");
  mad[1] = 0x51;
  EXPECT_EQ(title(*decode(mad)), "class 0x51 method 0x70(attribute 0x00EE)");
  mad[1] = 0x35;
  mad[3] = 0x01;
  EXPECT_EQ(title(*decode(mad)), "Vend 0x35 Get(attribute 0x00EE)");
  mad[1] = 0x2F;
  EXPECT_EQ(title(*decode(mad)), "Application 0x2F Get(attribute 0x00EE)");
  EXPECT_EQ(decode(mad)->data, 24U);
  mad[2] = 0x77;
  EXPECT_EQ(decode(mad)->data, 24U) << "an application chooses the version of its class";
  EXPECT_EQ(decode(ConstBytes(mad).first(23)).error(), Errc::truncated);
}

// A fabric of 2008, packet by packet: the link type ERF has 16 octets, an LRH of 8, sometimes a GRH, and a VCRC of 2 at the end.
TEST(MadText, OfARealFabricIsAsReviewed) {
  std::ifstream in(PARLEY_SOURCE_DIR "/tests/captures/roce/ib_2008_mthca_erf.pcap", std::ios::binary);
  const Bytes file((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  ASSERT_FALSE(file.empty());
  PcapReader reader;
  ConstBytes window = file;
  CapturedPacket packet;
  std::size_t consumed = 0, mads = 0;
  std::string titles, first_of_each;
  std::set<std::string> seen;
  while (reader.next(window, packet, consumed) == CaptureStatus::packet) {
    window = window.subspan(consumed);
    const std::size_t before = 16 + 8 + ((packet.octets[17] & 3) == 3 ? PARLEY_ROCE_GRH_LEN : 0);
    const auto parsed = ib::Packet::parse(packet.octets.subspan(before, packet.octets.size() - before - 2));
    if (!parsed || parsed->payload.size() != PARLEY_IB_MAD_LEN || parsed->bth.dest_qpn > 1) continue;
    const auto decoded = decode(parsed->payload);
    ASSERT_TRUE(decoded);
    ++mads;
    titles += fmt::format("frame {}: {} {}\n", packet.frame, title(*decoded), status_text(*decoded));
    if (seen.insert(title(*decoded)).second) first_of_each += dump(*decoded, parsed->payload);
  }
  EXPECT_EQ(mads, 17U);
  expect_as_reviewed("mad_real_fabric.txt", titles + "--\n" + first_of_each);
}

// IBA §13.4.8.1: the same attribute in each class, behind the class's headers.
TEST(MadText, ShowsClassPortInfoInEveryClassThatHasIt) {
  const auto info = ClassPortInfo{}.set(ClassPortInfo::resp_time_value, 18);
  const Datagram mads[] = {
      request<MgmtClass::cc, Method::get>(info), request<MgmtClass::vendor, Method::get>(info, {.mgmt_class = 0x0A}),
      request<MgmtClass::vendor_oui, Method::get>(info, {.mgmt_class = 0x32}),
      request<MgmtClass::application, Method::set>(info, {.mgmt_class = 0x2F, .class_version = 3})};
  const char* const titles[] = {"CCGet(ClassPortInfo)", "Vend 0x0A Get(ClassPortInfo)", "Vend 0x32 Get(ClassPortInfo)",
                                "Application 0x2F Set(ClassPortInfo)"};
  for (std::size_t i = 0; i < std::size(mads); ++i) {
    const auto decoded = decode(mads[i]);
    EXPECT_EQ(title(*decoded), titles[i]);
    ASSERT_EQ(decoded->bodies.size(), 1U) << titles[i];
    EXPECT_EQ(ClassPortInfo::parse(decoded->bodies[0].view)->get(ClassPortInfo::resp_time_value), 18) << titles[i];
  }
  EXPECT_EQ(mads[3][2], 3);
}

/// Another version's structures are not guessed at.
TEST(MadText, OfAnotherClassVersionHasNoBody) {
  Datagram mad = request<MgmtClass::subn, Method::get>(NodeInfo{});
  mad[2] = 2;
  EXPECT_TRUE(decode(mad)->bodies.empty());
  EXPECT_EQ(decode(mad)->format.layout->name, "MadHeader");
}

TEST(MadText, TakesAnyOctetsOfAnyLength) {
  Rng rng(5);
  for (int i = 0; i < 400; ++i) {
    Bytes mad(24 + rng.below(400));
    for (std::uint8_t& octet : mad) octet = static_cast<std::uint8_t>(rng.next());
    const ClassFacts& facts = class_rows[rng.below(std::size(class_rows))];
    mad[0] = 1;
    mad[1] = static_cast<std::uint8_t>(facts.mgmt_class);
    mad[2] = facts.version;
    mad[16] = 0;
    const auto decoded = decode(mad);
    ASSERT_TRUE(decoded);
    EXPECT_FALSE(dump(*decoded, mad).empty());
    EXPECT_FALSE(dotted(*decoded, mad).empty());
    EXPECT_FALSE(json_of(*decoded, mad).dump(real_text).empty());
  }
  for (const Layout* layout : all_layouts())
    for (std::size_t size = 0; size <= layout->octets; ++size) (void)dotted(*layout, Bytes(size, 0xA5));
}

}  // namespace
}  // namespace parley::wire::mad::mad_print_test

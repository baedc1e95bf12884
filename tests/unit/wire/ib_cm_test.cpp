// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Messages of the InfiniBand CM: where each field stands (IBA vol. 1 §12.6 to §12.11), and the RDMA IP CM service (Annex A11).
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstring>
#include <random>
#include <type_traits>

#include "tests/unit/reviewed.hpp"
#include "wire/ib/cm.hpp"
#include "wire/ib/cma.hpp"

namespace parley::wire::ib::cm_test {
namespace {

Bytes written(const CmMessage& message) {
  Bytes out(PARLEY_IB_MAD_LEN, 0xEE);
  message.emit(out);
  return out;
}

/// The bits that are set, from the end of the MAD header, as runs: "8.0-15.7".
std::string bits_set(ConstBytes octets) {
  std::string out;
  const std::size_t bits = octets.size() * 8;
  const auto is_set = [&](std::size_t at) { return (octets[at / 8] >> (7 - at % 8) & 1) != 0; };
  for (std::size_t at = 0; at < bits; ++at) {
    if (!is_set(at)) continue;
    std::size_t last = at;
    while (last + 1 < bits && is_set(last + 1)) ++last;
    out += fmt::format(" {}.{}-{}.{}", at / 8, at % 8, last / 8, last % 8);
    at = last;
  }
  return out;
}

template <class T>
void set_all(T& field) {
  if constexpr (std::is_same_v<T, bool>)
    field = true;
  else
    std::memset(&field, 0xFF, sizeof field);
}

/// The message's table: each field with nothing but ones in it, and nothing else.
template <class M>
class Table {
 public:
  template <class Field>
  void field(const char* name, Field&& get) {
    M m{};
    m = cleared(m);
    set_all(get(m));
    const Bytes octets = written({.body = m});
    const std::string bits = bits_set(ConstBytes(octets).subspan(PARLEY_IB_MAD_HEADER_LEN));
    text += fmt::format("  {}:{}\n", name, bits);
    const auto again = CmMessage::parse(octets);
    ASSERT_TRUE(again);
    EXPECT_EQ(written(*again), octets) << name;
  }
  std::string text;

 private:
  static M cleared(M m) {
    if constexpr (requires { m.p_key; }) m.p_key = 0;
    return m;
  }
};

#define FIELD(name) \
  table.field(      \
      #name, [](auto& m) -> auto& { return m.name; })

template <class M>
void path_fields(Table<M>& table, bool alternate) {
  const auto add = [&](const char* name, auto get) {
    table.field(
        name, [&](M & m) -> auto& {
          if constexpr (std::is_same_v<M, CmReq>)
            return get(alternate ? m.alternate : m.primary);
          else
            return get(m.alternate);
        });
  };
#define PATH_FIELD(name) \
  add(                   \
      alternate ? "alternate." #name : "primary." #name, [](CmPath & p) -> auto& { return p.name; })
  PATH_FIELD(local_lid);
  PATH_FIELD(remote_lid);
  PATH_FIELD(local_gid);
  PATH_FIELD(remote_gid);
  PATH_FIELD(flow_label);
  PATH_FIELD(packet_rate);
  PATH_FIELD(traffic_class);
  PATH_FIELD(hop_limit);
  PATH_FIELD(sl);
  PATH_FIELD(subnet_local);
  PATH_FIELD(local_ack_timeout);
#undef PATH_FIELD
}

std::string req_table() {
  Table<CmReq> table;
  FIELD(local_comm_id);
  FIELD(ece_vendor);
  FIELD(service_id);
  FIELD(local_ca_guid);
  FIELD(local_q_key);
  FIELD(local_qpn);
  FIELD(responder_resources);
  FIELD(local_eecn);
  FIELD(initiator_depth);
  FIELD(remote_eecn);
  FIELD(remote_cm_response_timeout);
  FIELD(service);
  FIELD(flow_control);
  FIELD(starting_psn);
  FIELD(local_cm_response_timeout);
  FIELD(retry_count);
  FIELD(p_key);
  FIELD(path_mtu);
  FIELD(rdc_exists);
  FIELD(rnr_retry_count);
  FIELD(max_cm_retries);
  FIELD(srq);
  FIELD(extended_service);
  path_fields(table, false);
  path_fields(table, true);
  FIELD(private_data);
  return "REQ\n" + table.text;
}

std::string rep_table() {
  Table<CmRep> table;
  FIELD(local_comm_id);
  FIELD(remote_comm_id);
  FIELD(local_q_key);
  FIELD(local_qpn);
  FIELD(local_eecn);
  FIELD(starting_psn);
  FIELD(ece_vendor);
  FIELD(responder_resources);
  FIELD(initiator_depth);
  FIELD(target_ack_delay);
  FIELD(failover_accepted);
  FIELD(flow_control);
  FIELD(rnr_retry_count);
  FIELD(srq);
  FIELD(local_ca_guid);
  FIELD(private_data);
  return "REP\n" + table.text;
}

template <class M>
std::string plain_table(const std::string& name) {
  Table<M> table;
  FIELD(local_comm_id);
  FIELD(remote_comm_id);
  if constexpr (requires(M m) { m.about; }) FIELD(about);
  if constexpr (requires(M m) { m.service_timeout; }) FIELD(service_timeout);
  if constexpr (requires(M m) { m.remote_qpn; }) FIELD(remote_qpn);
  if constexpr (requires(M m) { m.remote_cm_response_timeout; }) FIELD(remote_cm_response_timeout);
  if constexpr (requires(M m) { m.info_length; }) FIELD(info_length);
  if constexpr (requires(M m) { m.reason; }) FIELD(reason);
  if constexpr (requires(M m) { m.status; }) FIELD(status);
  if constexpr (requires(M m) { m.info; }) FIELD(info);
  if constexpr (requires(M m) { m.alternate; }) path_fields(table, true);
  FIELD(private_data);
  return name + "\n" + table.text;
}

std::string sidr_req_table() {
  Table<CmSidrReq> table;
  FIELD(request_id);
  FIELD(p_key);
  FIELD(service_id);
  FIELD(private_data);
  return "SIDR_REQ\n" + table.text;
}

std::string sidr_rep_table() {
  Table<CmSidrRep> table;
  FIELD(request_id);
  FIELD(status);
  FIELD(info_length);
  FIELD(ece_vendor);
  FIELD(qpn);
  FIELD(service_id);
  FIELD(q_key);
  FIELD(info);
  FIELD(private_data);
  return "SIDR_REP\n" + table.text;
}

TEST(WireIbCm, EachFieldStandsWhereTheSpecificationHasIt) {
  expect_as_reviewed("wire_ib_cm.txt", req_table() + plain_table<CmMra>("MRA") + plain_table<CmRej>("REJ") +
                                           rep_table() + plain_table<CmRtu>("RTU") + plain_table<CmDreq>("DREQ") +
                                           plain_table<CmDrep>("DREP") + sidr_req_table() + sidr_rep_table() +
                                           plain_table<CmLap>("LAP") + plain_table<CmApr>("APR"));
}

/// Any message of a known attribute, with any octets after its header.
Bytes drawn(std::mt19937_64& random, std::uint16_t attribute) {
  Bytes out(PARLEY_IB_MAD_LEN);
  for (auto& octet : out) octet = static_cast<std::uint8_t>(random());
  MadHeader header = *MadHeader::parse(out);
  header.base_version = 1;
  header.mgmt_class = PARLEY_IB_CLASS_CM;
  header.class_version = PARLEY_IB_CLASS_CM_VERSION;
  header.method = PARLEY_IB_MAD_METHOD_SEND;
  header.attribute_id = attribute;
  header.emit(out);
  return out;
}

TEST(WireIbCm, WhatIsReadIsWrittenAndReadAgain) {
  std::mt19937_64 random(12);
  for (std::uint16_t attribute = 0x10; attribute <= 0x1A; ++attribute)
    for (int i = 0; i < 200; ++i) {
      const auto message = CmMessage::parse(drawn(random, attribute));
      ASSERT_TRUE(message);
      EXPECT_EQ(static_cast<std::uint16_t>(message->type()), attribute);
      const auto again = CmMessage::parse(written(*message));
      ASSERT_TRUE(again);
      EXPECT_TRUE(*again == *message) << attribute;
    }
}

TEST(WireIbCm, WhatIsNoMessageOfTheCmIsRefused) {
  std::mt19937_64 random(13);
  const Bytes good = drawn(random, 0x10);
  ASSERT_TRUE(CmMessage::parse(good));
  EXPECT_EQ(CmMessage::parse(ConstBytes(good).first(255)).error(), Errc::truncated);
  const auto with = [&](std::size_t at, std::uint8_t value) {
    Bytes out = good;
    out[at] = value;
    const auto parsed = CmMessage::parse(out);
    EXPECT_FALSE(parsed);
    if (parsed) return std::string();
    EXPECT_EQ(parsed.error(), Errc::unsupported);
    const std::string text = parsed.error().message();
    return text.substr(text.find(": ") + 2);
  };
  EXPECT_EQ(with(0, 2), "the MAD has base version 2 and class version 2, not 1 and 2");
  EXPECT_EQ(with(1, 3), "the MAD is of class 3, not 7 (Communication Management)");
  EXPECT_EQ(with(2, 1), "the MAD has base version 1 and class version 1, not 1 and 2");
  EXPECT_EQ(with(3, 0x83), "a message of the CM has method 3 (Send), not 131");
  EXPECT_EQ(with(17, 0x0F), "no message of the CM has attribute 15");
  EXPECT_EQ(with(17, 0x1B), "no message of the CM has attribute 27");
}

TEST(WireIbCm, EveryCodeInWords) {
  std::string table;
  for (std::uint16_t code = 0; code <= 40; ++code)
    table += fmt::format("reject {}: {}\n", code, to_string(static_cast<CmReject>(code)));
  for (std::uint8_t code = 0; code <= 6; ++code)
    table += fmt::format("SIDR status {}: {}\n", code, to_string(static_cast<SidrStatus>(code)));
  for (std::uint8_t code = 0; code <= 14; ++code)
    table += fmt::format("AP status {}: {}\n", code, to_string(static_cast<ApStatus>(code)));
  for (std::uint8_t code = 0; code <= 3; ++code)
    table += fmt::format("about {}: {}\n", code, to_string(static_cast<CmSubject>(code)));
  for (std::uint16_t code = 0x0F; code <= 0x1B; ++code)
    table += fmt::format("attribute {:#x}: {}\n", code, to_string(static_cast<CmMessageType>(code)));
  expect_as_reviewed("wire_ib_cm_words.txt", table);
}

TEST(WireIbCm, XrcAndAlternatePathsAreKnownByTheirFields) {
  CmReq req;
  EXPECT_FALSE(req.is_xrc());
  req.service = CmService::extended;
  EXPECT_FALSE(req.is_xrc());
  req.extended_service = PARLEY_IBCM_EXTENDED_XRC;
  EXPECT_TRUE(req.is_xrc());
  EXPECT_FALSE(req.has_alternate());
  req.alternate.local_lid = 1;
  EXPECT_TRUE(req.has_alternate());
}

TEST(WireCma, ServiceIds) {
  EXPECT_EQ(service_id_of(PortSpace::tcp, 9001), 0x0000000001062329u);
  EXPECT_EQ(service_id_of(PortSpace::udp, 7174), 0x0000000001111C06u);
  EXPECT_EQ(service_id_of(PortSpace::ib, 9015), 0x00000000013F2337u);
  EXPECT_EQ(cma_service_of(0x0000000001062329), (CmaService{PortSpace::tcp, 9001}));
  EXPECT_EQ(cma_service_of(0x0000000000020001), (CmaService{PortSpace::ipoib, 1}));
  EXPECT_EQ(cma_service_of(0x0000000001072329), std::nullopt);
  EXPECT_EQ(cma_service_of(0x1000000001062329), std::nullopt);
  EXPECT_EQ(to_string(PortSpace::ib), "IB");
}

TEST(WireCma, HeaderOctets) {
  CmaHeader v4{Address::v4(192, 0, 2, 2, 0xDAE4), Address::v4(192, 0, 2, 1, 0)};
  Bytes out(PARLEY_CMA_HEADER_LEN, 0xEE);
  v4.emit(out);
  std::string text;
  for (const std::uint8_t octet : out) text += fmt::format("{:02x}", octet);
  EXPECT_EQ(text,
            "0040dae4"
            "000000000000000000000000c0000202"
            "000000000000000000000000c0000201");
  EXPECT_EQ(*CmaHeader::parse(out), v4);
  CmaHeader v6{*Address::parse("[2001:db8::2]:7"), *Address::parse("2001:db8::1")};
  v6.emit(out);
  EXPECT_EQ(*CmaHeader::parse(out), v6);
  EXPECT_EQ(out[1], 0x60);
  EXPECT_EQ(CmaHeader::parse(ConstBytes(out).first(35)).error(), Errc::truncated);
  out[1] = 0x50;
  EXPECT_EQ(CmaHeader::parse(out).error(), Errc::unsupported);
  out[1] = 0x40;
  out[0] = 1;
  EXPECT_EQ(CmaHeader::parse(out).error(), Errc::unsupported);
}

}  // namespace
}  // namespace parley::wire::ib::cm_test

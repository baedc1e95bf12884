// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What providers record alike: each event that a user gets, and the messages of the kernel that its words imply.
#include "cm/trace_events.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cm/failure_text.hpp"

namespace parley {
namespace {

struct Heard final : trace::Sink {
  std::vector<std::string> lines;
  void record(const trace::Record& record) override { lines.push_back(trace::to_text(record)); }
};

const Address here = Address::v4(192, 0, 2, 2, 40000), there = Address::v4(192, 0, 2, 1, 7471);

std::vector<std::string> told(const cm::Event& event, std::string_view device = "rxe0") {
  Heard heard;
  const Instant now{};
  cm::trace_event({.sink = heard, .now = now, .connection = 3, .local = here, .peer = there}, event, device);
  return heard.lines;
}

std::string only(const cm::Event& event, std::string_view device = "rxe0") {
  const std::vector<std::string> lines = told(event, device);
  return lines.size() == 1 ? lines[0] : std::to_string(lines.size()) + " lines";
}

TEST(TraceEvents, ARoceConnectionHasItsDeviceItsGidsAndItsQueuePairs) {
  ib::Parameters p;
  p.sgid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, 2};
  p.dgid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, 1};
  p.sgid_index = 1, p.qp_num = 17, p.remote_qp_num = 18, p.path_mtu = Mtu::octets_4096;
  EXPECT_EQ(only(cm::Established{.id = {}, .parameters = p, .private_data = {}, .ird = 16, .ord = 8, .steps = {}}),
            "#3 192.0.2.1:7471 cm.established ird=16 ord=8 device=rxe0 local=192.0.2.2:40000 gid=::ffff:192.0.2.2 "
            "gid_index=1 peer_gid=::ffff:192.0.2.1 qp_num=17 peer_qp_num=18 path_mtu=4096");
  EXPECT_EQ(only(cm::Resolved{.id = {}, .device = nullptr, .local = here, .parameters = p, .reason = {}}),
            "#3 192.0.2.1:7471 cm.resolved local=192.0.2.2:40000 device=rxe0 gid=::ffff:192.0.2.2");
}

TEST(TraceEvents, OfAnIwarpDeviceThereIsNoGid) {
  EXPECT_EQ(
      only(cm::Established{.id = {}, .parameters = {}, .private_data = {}, .ird = 1, .ord = 2, .steps = {}}, "siw0"),
      "#3 192.0.2.1:7471 cm.established ird=1 ord=2 device=siw0 local=192.0.2.2:40000");
}

TEST(TraceEvents, OnSocketsThereIsWhatMpaAgreed) {
  mpa::Parameters p;
  p.revision = 2, p.rtr = mpa::Rtr::read, p.crc = true;
  EXPECT_EQ(only(cm::Established{.id = {}, .parameters = p, .private_data = {}, .ird = 1, .ord = 2, .steps = {}}, ""),
            "#3 192.0.2.1:7471 cm.established revision=2 rtr=read crc=yes markers_sent=no markers_received=no ird=1 "
            "ord=2");
  EXPECT_EQ(
      only(
          cm::ConnectRequest{
              .listener = {}, .id = {}, .peer = there, .offered = {}, .private_data = Bytes(3), .ird = 1, .ord = 1},
          ""),
      "#3 192.0.2.1:7471 cm.requested private_data_length=3");
}

TEST(TraceEvents, EachEndSaysWhatItIs) {
  const cm::Failure why = cm::plain_failure(ib::step::wait_reply, Errc::timed_out, {}, "nothing", "");
  EXPECT_EQ(only(cm::Rejected{.id = {}, .private_data = Bytes(148), .parameters = {}, .why = {}}),
            "#3 192.0.2.1:7471 cm.rejected private_data_length=148");
  EXPECT_EQ(only(cm::ConnectFailed{.id = {}, .why = why}).find("#3 192.0.2.1:7471 cm.failed step=wait_reply cause="),
            0U);
  EXPECT_EQ(only(cm::Retrying{{}, why, there, here, {}})
                .find("#3 192.0.2.1:7471 cm.retrying next=192.0.2.2:40000 step=wait_reply"),
            0U);
  EXPECT_EQ(only(cm::Disconnected{.id = {}, .graceful = true, .why = {}}), "#3 192.0.2.1:7471 cm.disconnected");
  EXPECT_EQ(only(cm::Disconnected{.id = {}, .graceful = false, .why = why}).find("#3 192.0.2.1:7471 cm.lost step="),
            0U);
  EXPECT_EQ(only(cm::AddressChanged{{}, why}).find("#3 192.0.2.1:7471 cm.address_changed step="), 0U);
  EXPECT_EQ(only(cm::DeviceRemoved{{}, nullptr, why}), "#3 192.0.2.1:7471 cm.device_removed device=rxe0");
  EXPECT_EQ(only(cm::TimewaitExit{}), "#3 192.0.2.1:7471 cm.timewait_exit");
  EXPECT_EQ(only(cm::Listening{{}, here}), "#3 192.0.2.1:7471 cm.listening local=192.0.2.2:40000");
  EXPECT_TRUE(told(cm::TurnedAway{.id = {}, .peer = {}, .why = {}}).empty());
  EXPECT_TRUE(told(cm::UserEvent{}).empty());
}

/// The messages that the kernel's word implies: "sent REQ".
std::vector<std::string> implied(const cm::RdmaCmStep& by) {
  Heard heard;
  const Instant now{};
  cm::trace_kernel_messages({.sink = heard, .now = now, .connection = 0, .local = {}, .peer = {}}, by);
  std::vector<std::string> out;
  for (const std::string& line : heard.lines) {
    const std::string begin = "kernel.message ", end = " implied_by=" + std::string(by.by);
    EXPECT_EQ(line.find(begin), 0U) << line;
    EXPECT_NE(line.find(end), std::string::npos) << line;
    std::string text = line.substr(begin.size());
    out.push_back(text.erase(text.find(end), end.size()));
  }
  return out;
}

using Messages = std::vector<std::string>;
constexpr bool yes = true;

TEST(KernelMessages, AnInitiatorOverRoce) {
  EXPECT_EQ(implied({.by = "ADDR_RESOLVED", .initiator = yes}), Messages());
  EXPECT_EQ(implied({.by = "rdma_connect", .initiator = yes}), Messages{"sent REQ"});
  EXPECT_EQ(implied({.by = "CONNECT_RESPONSE", .initiator = yes}), Messages{"received REP"});
  EXPECT_EQ(implied({.by = "rdma_establish", .initiator = yes}), Messages{"sent RTU"});
  EXPECT_EQ(implied({.by = "ESTABLISHED", .initiator = yes}), Messages());  // of a queue pair that librdmacm drives
  EXPECT_EQ(implied({.by = "UNREACHABLE", .initiator = yes, .status = -110}), Messages());
}

TEST(KernelMessages, AResponderOverRoce) {
  EXPECT_EQ(implied({.by = "CONNECT_REQUEST"}), Messages{"received REQ"});
  EXPECT_EQ(implied({.by = "rdma_accept"}), Messages{"sent REP"});
  EXPECT_EQ(implied({.by = "ESTABLISHED"}), Messages{"received RTU"});
}

TEST(KernelMessages, AServiceOfDatagramsIsAskedForBySidr) {
  EXPECT_EQ(implied({.by = "rdma_connect", .initiator = yes, .datagrams = yes}), Messages{"sent SIDR_REQ"});
  EXPECT_EQ(implied({.by = "CONNECT_REQUEST", .datagrams = yes}), Messages{"received SIDR_REQ"});
  EXPECT_EQ(implied({.by = "rdma_accept", .datagrams = yes}), Messages{"sent SIDR_REP"});
  EXPECT_EQ(implied({.by = "rdma_reject", .datagrams = yes, .status = 28}), Messages{"sent SIDR_REP"});
  EXPECT_EQ(implied({.by = "ESTABLISHED", .initiator = yes, .datagrams = yes}), Messages{"received SIDR_REP"});
  // A status of the SIDR_REP, or that none came.
  EXPECT_EQ(implied({.by = "UNREACHABLE", .initiator = yes, .datagrams = yes, .status = 2}), Messages());
}

TEST(KernelMessages, ARejHasItsReason) {
  EXPECT_EQ(implied({.by = "rdma_reject", .status = 28}), Messages{"sent REJ reason=consumer_reject"});
  EXPECT_EQ(implied({.by = "REJECTED", .initiator = yes, .status = 28}),
            Messages{"received REJ reason=consumer_reject"});
  EXPECT_EQ(implied({.by = "REJECTED", .initiator = yes, .status = 8}),
            Messages{"received REJ reason=invalid_service_id"});
  EXPECT_EQ(implied({.by = "REJECTED", .status = 10}), Messages{"received REJ reason=stale_connection"});
  EXPECT_EQ(implied({.by = "REJECTED", .status = 999}), Messages{"received REJ reason=other"});
}

TEST(KernelMessages, WhoDisconnectsFirstAsksAndTheOtherAnswers) {
  EXPECT_EQ(implied({.by = "rdma_disconnect", .initiator = yes}), Messages{"sent DREQ"});
  EXPECT_EQ(implied({.by = "DISCONNECTED", .initiator = yes, .answer = true}), Messages{"received DREP"});
  EXPECT_EQ(implied({.by = "DISCONNECTED"}), Messages{"received DREQ"});
  EXPECT_EQ(implied({.by = "rdma_disconnect", .answer = true}), Messages{"sent DREP"});
  EXPECT_EQ(implied({.by = "DISCONNECTED", .answer = true, .status = -110}), Messages());  // nobody answered
}

TEST(KernelMessages, OverIwarpThereAreMpasFramesAndNothingAboutTheEnd) {
  EXPECT_EQ(implied({.by = "rdma_connect", .initiator = yes, .iwarp = yes}), Messages());  // TCP comes first
  EXPECT_EQ(implied({.by = "ESTABLISHED", .initiator = yes, .iwarp = yes}),
            (Messages{"sent Request", "received Reply"}));
  EXPECT_EQ(implied({.by = "REJECTED", .initiator = yes, .iwarp = yes, .status = -104}), Messages());  // or a RST
  EXPECT_EQ(implied({.by = "CONNECT_REQUEST", .iwarp = yes}), Messages{"received Request"});
  EXPECT_EQ(implied({.by = "rdma_accept", .iwarp = yes}), Messages{"sent Reply"});
  EXPECT_EQ(implied({.by = "rdma_reject", .iwarp = yes, .status = 28}), Messages{"sent Reply"});
  EXPECT_EQ(implied({.by = "ESTABLISHED", .iwarp = yes}), Messages());
  EXPECT_EQ(implied({.by = "rdma_disconnect", .iwarp = yes}), Messages());
  EXPECT_EQ(implied({.by = "DISCONNECTED", .iwarp = yes}), Messages());
}

}  // namespace
}  // namespace parley

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Management datagrams through the C library, on a simulated subnet in a process of its own.
#include "parley/mad.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/wait.h>

#include <cstring>
#include <set>
#include <string>

#include "tests/unit/capi/subnet_process.hpp"
#include "tests/unit/hang_limit.hpp"

namespace parley {
namespace {

using sim::subnet::SubnetProcess;
using testing::HasSubstr;

class MadInC : public testing::Test {
 protected:
  ~MadInC() override {
    if (port_ != nullptr) (void)parley_mad_close(port_);
  }
  /// Of a subnet without faults, unless a test has made one.
  parley_mad* port(std::uint32_t window = 0, std::uint32_t timeout_ms = 10'000) {
    if (!subnet_) subnet_.emplace();
    parley_mad_opts opts = PARLEY_MAD_OPTS_INIT;
    opts.window = window;
    opts.timeout_ms = timeout_ms;
    opts.retries = 1;
    if (port_ != nullptr) return port_;
    EXPECT_EQ(parley_mad_open(&port_, subnet_->where().c_str(), &opts), 0) << parley_last_error();
    return port_;
  }
  static parley_mad_request request(const char* method, const char* attribute, const char* path) {
    parley_mad_request out = PARLEY_MAD_REQUEST_INIT;
    out.method = method;
    out.attribute = attribute;
    out.path = path;
    return out;
  }
  /// What a call returns; `reply_` has the rest.
  int call(const parley_mad_request& request) {
    reply_ = PARLEY_MAD_REPLY_INIT;
    return parley_mad_call(port(), &request, &reply_);
  }
  std::uint64_t number(const char* member) const {
    std::uint64_t out = ~std::uint64_t{0};
    EXPECT_EQ(parley_mad_get(reply_.structure, reply_.records, reply_.stride, member, &out), 0) << parley_last_error();
    return out;
  }
  std::string text(const char* member) const {
    char out[128] = "";
    EXPECT_GE(parley_mad_text(reply_.structure, reply_.records, reply_.stride, member, out, sizeof out), 0)
        << parley_last_error();
    return out;
  }
  /// Turns by the descriptor until a reply is there.
  void take() {
    reply_ = PARLEY_MAD_REPLY_INIT;
    for (int turn = 0; turn < 1000; ++turn) {
      const int taken = parley_mad_poll(port(), &reply_);
      ASSERT_GE(taken, 0) << parley_last_error();
      if (taken == 1) return;
      pollfd wait{parley_mad_fd(port()), POLLIN, 0};
      ASSERT_EQ(::poll(&wait, 1, hang_milliseconds), 1);
      ASSERT_GE(parley_mad_progress(port()), 0) << parley_last_error();
    }
    FAIL() << "no reply comes";
  }

  std::optional<SubnetProcess> subnet_;
  parley_mad* port_ = nullptr;
  parley_mad_reply reply_ = PARLEY_MAD_REPLY_INIT;
};

TEST_F(MadInC, AsksByDirectedRouteAndByLidAndReadsMembers) {
  parley_mad_attr self = PARLEY_MAD_ATTR_INIT;
  ASSERT_EQ(parley_mad_query(port(), &self), 0) << parley_last_error();
  EXPECT_NE(self.lid, 0);
  EXPECT_NE(self.sm_lid, 0);
  EXPECT_EQ(self.rmpp, 0);
  ASSERT_EQ(call(request("SubnGet", "NodeInfo", "0,")), 0) << parley_last_error();
  EXPECT_STREQ(reply_.structure, "NodeInfo");
  EXPECT_EQ(reply_.count, 1U);
  EXPECT_EQ(reply_.stride, 40U);
  EXPECT_EQ(reply_.mad_length, 256U);
  EXPECT_EQ(number("node_guid"), self.node_guid);
  EXPECT_EQ(text("node_type"), "channel adapter (1)");
  ASSERT_EQ(call(request("SubnGet", "NodeInfo", "0,1")), 0) << parley_last_error();
  EXPECT_EQ(text("node_type"), "switch (2)");
  EXPECT_EQ(number("num_ports"), 8U);
  const std::string lid = std::to_string(self.lid);
  ASSERT_EQ(call(request("SubnGet", "NodeDescription", lid.c_str())), 0) << parley_last_error();
  EXPECT_EQ(text("node_string"), "H00001");
  parley_mad_request by_modifier = request("SubnGet", "PortInfo", "0,1");
  by_modifier.modifier = 2;
  ASSERT_EQ(call(by_modifier), 0) << parley_last_error();
  EXPECT_EQ(text("port_state"), "active (4)");
  EXPECT_THAT(text(nullptr), HasSubstr("m_key=0x"));
}

TEST_F(MadInC, AsksByNumbersToo) {
  parley_mad_request by_numbers = PARLEY_MAD_REQUEST_INIT;
  by_numbers.mgmt_class = 0x01;
  by_numbers.method_number = 0x01;
  by_numbers.attribute_number = 0x11;
  by_numbers.path = "0,1";
  ASSERT_EQ(call(by_numbers), 0) << parley_last_error();
  EXPECT_STREQ(reply_.structure, "NodeInfo");
  EXPECT_EQ(number("num_ports"), 8U);
  by_numbers.attribute_number = 0xFF77;
  EXPECT_EQ(call(by_numbers), -PARLEY_E_MAD_STATUS);
  EXPECT_EQ(reply_.fault, static_cast<std::uint32_t>(PARLEY_MAD_FAULT_STATUS));
  EXPECT_EQ(reply_.mad_status, 0x0CU);
  EXPECT_STREQ(reply_.status_text, "attribute without such a method");
  EXPECT_THAT(reply_.path, HasSubstr("IBDRPath(drPath=0:1"));
  EXPECT_EQ(reply_.records, nullptr);
  EXPECT_NE(reply_.mad, nullptr);
}

TEST_F(MadInC, QueriesOfSubnetAdministrationAreMadeOfMembers) {
  const char* const members[] = {"slid=1", "dlid=3"};
  parley_mad_request query = request("SubnAdmGet", "PathRecord", nullptr);
  query.set = members;
  query.set_count = 2;
  ASSERT_EQ(call(query), 0) << parley_last_error();
  EXPECT_EQ(number("dlid"), 3U);
  EXPECT_EQ(text("mtu"), "2048 (4)");
  const char* const beyond[] = {"dlid=99"};
  query.set = beyond;
  query.set_count = 1;
  EXPECT_EQ(call(query), -PARLEY_E_MAD_NO_RECORDS);
  EXPECT_EQ(reply_.status, -PARLEY_E_MAD_NO_RECORDS);
  EXPECT_EQ(reply_.fault, static_cast<std::uint32_t>(PARLEY_MAD_FAULT_CLASS_STATUS));
  EXPECT_STREQ(reply_.status_text, "no records");
  EXPECT_STREQ(reply_.error, parley_last_error());
  EXPECT_EQ(parley_errno(-PARLEY_E_MAD_NO_RECORDS), ENOENT);
}

TEST_F(MadInC, AGidsPathIsAskedFor) {
  ASSERT_EQ(call(request("SubnGet", "NodeInfo", "fe80::2")), 0) << parley_last_error();  // LID 2, as the server has it
  const std::uint64_t guid = number("node_guid");
  ASSERT_EQ(call(request("SubnGet", "NodeInfo", "2")), 0) << parley_last_error();
  EXPECT_EQ(number("node_guid"), guid);
  EXPECT_EQ(call(request("SubnGet", "NodeInfo", "fe80::ff")), -PARLEY_E_MAD_NO_RECORDS);
}

TEST_F(MadInC, ATableOfManySegmentsIsRecordsWithAStride) {
  ASSERT_EQ(call(request("SubnAdmGetTable", "NodeRecord", nullptr)), 0) << parley_last_error();
  ASSERT_EQ(reply_.count, sim::subnet::SubnetServer::node_records);
  EXPECT_EQ(reply_.stride, 112U);
  EXPECT_EQ(parley_mad_size("NodeRecord"), 108);
  for (std::uint32_t i = 0; i < reply_.count; ++i) {
    std::uint64_t lid = 0;
    ASSERT_EQ(parley_mad_get("NodeRecord", reply_.records + i * reply_.stride, 108, "lid", &lid), 0);
    ASSERT_EQ(lid, i + 1);
  }
  const char* const none[] = {"lid=9999"};
  parley_mad_request query = request("SubnAdmGetTable", "NodeRecord", nullptr);
  query.set = none;
  query.set_count = 1;
  ASSERT_EQ(call(query), 0) << parley_last_error();
  EXPECT_EQ(reply_.count, 0U);
  EXPECT_EQ(reply_.records, nullptr);
}

TEST_F(MadInC, OfATableThatIsCutThereIsWhatCame) {
  EXPECT_EQ(call(request("SubnAdmGetTable", "PathRecord", nullptr)), -PARLEY_E_MAD_CUT);
  EXPECT_EQ(reply_.fault, static_cast<std::uint32_t>(PARLEY_MAD_FAULT_CUT));
  EXPECT_STREQ(reply_.structure, "PathRecord");
  ASSERT_EQ(reply_.count, 3U);
  EXPECT_EQ(reply_.stride, 64U);
  EXPECT_EQ(number("dlid"), 1U);
  EXPECT_THAT(reply_.error, HasSubstr("longer than one datagram"));
}

TEST_F(MadInC, OpenRequestsHaveABound) {
  const parley_mad_request ask = request("SubnGet", "NodeInfo", "0,1");
  int refused = 0;
  for (int i = 0; i < PARLEY_MAD_REQUESTS_MAX; ++i) refused += parley_mad_post(port(), &ask, nullptr) != 0;
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(parley_mad_post(port(), &ask, nullptr), -PARLEY_E_NO_SPACE);
  EXPECT_EQ(call(ask), -PARLEY_E_NO_SPACE);
  ASSERT_NO_FATAL_FAILURE(take());
  EXPECT_EQ(reply_.status, 0) << reply_.error;
  EXPECT_EQ(call(ask), 0) << parley_last_error();
}

TEST_F(MadInC, ASetIsSeenByTheNextGet) {
  ASSERT_EQ(call(request("SubnGet", "PortInfo", "0,")), 0) << parley_last_error();
  std::string body(reinterpret_cast<const char*>(reply_.records), reply_.stride);
  for (const char* member : {"m_key_lease_period=77", "port_state=0", "port_physical_state=0"})  // 0: as it is
    ASSERT_EQ(parley_mad_set("PortInfo", body.data(), body.size(), member), 0) << parley_last_error();
  parley_mad_request set = request("SubnSet", "PortInfo", "0,");
  set.body = body.data();
  set.body_length = static_cast<std::uint32_t>(body.size());
  ASSERT_EQ(call(set), 0) << parley_last_error();
  ASSERT_EQ(call(request("SubnGet", "PortInfo", "0,")), 0) << parley_last_error();
  EXPECT_EQ(number("m_key_lease_period"), 77U);
}

TEST_F(MadInC, PostedRequestsComeBackByTheDescriptor) {
  std::set<std::uint64_t> posted;
  int marks[40];
  for (int& mark : marks) {
    parley_mad_request ask = request("SubnGet", "NodeInfo", "0,1");
    std::uint64_t id = 0;
    ask.user = &mark;
    ASSERT_EQ(parley_mad_post(port(4), &ask, &id), 0) << parley_last_error();
    EXPECT_TRUE(posted.insert(id).second);
  }
  // A call in the midst of them has its own answer.
  ASSERT_EQ(call(request("SubnGet", "NodeDescription", "0,")), 0) << parley_last_error();
  EXPECT_EQ(reply_.id, 0U);
  EXPECT_EQ(text("node_string"), "H00001");
  std::set<void*> users;
  for (std::size_t i = 0; i < std::size(marks); ++i) {
    ASSERT_NO_FATAL_FAILURE(take());
    EXPECT_EQ(reply_.status, 0);
    EXPECT_EQ(posted.erase(reply_.id), 1U);
    EXPECT_EQ(number("num_ports"), 8U);
    users.insert(reply_.user);
  }
  EXPECT_EQ(users.size(), std::size(marks));
  EXPECT_EQ(parley_mad_poll(port(), &reply_), 0);
  pollfd wait{parley_mad_fd(port()), POLLIN, 0};
  EXPECT_EQ(parley_mad_progress(port()), 0);
  EXPECT_EQ(::poll(&wait, 1, 0), 0);  // and it is quiet when all is taken
}

TEST_F(MadInC, ANodeThatDoesNotAnswerIsATimeoutWithItsTries) {
  subnet_.emplace(std::vector<std::string>{"lose SubnGet(NodeInfo) of S0004"});
  (void)port(0, 20);
  EXPECT_EQ(call(request("SubnGet", "NodeInfo", "0,1")), -PARLEY_E_TIMED_OUT);
  EXPECT_EQ(reply_.tries, 2U);
  EXPECT_STREQ(parley_mad_fault_name(reply_.fault), "timeout");
  EXPECT_STREQ(reply_.error, "SubnGet(NodeInfo) to directed route 0,1: no answer in 2 tries");
  EXPECT_EQ(reply_.mad, nullptr);
  parley_mad_request once = request("SubnGet", "NodeInfo", "0,1");
  once.retries = PARLEY_MAD_NO_RETRIES;
  std::uint64_t id = 0;
  ASSERT_EQ(parley_mad_post(port(), &once, &id), 0);
  ASSERT_NO_FATAL_FAILURE(take());  // by the timer behind the descriptor
  EXPECT_EQ(reply_.status, -PARLEY_E_TIMED_OUT);
  EXPECT_EQ(reply_.tries, 1U);
}

TEST_F(MadInC, OneThatIsCancelledIsTold) {
  subnet_.emplace(std::vector<std::string>{"lose SubnGet(NodeInfo) of S0004"});
  parley_mad_request ask = request("SubnGet", "NodeInfo", "0,1");
  ask.timeout_ms = 3'600'000;
  std::uint64_t id = 0;
  ASSERT_EQ(parley_mad_post(port(), &ask, &id), 0);
  ASSERT_GE(parley_mad_progress(port()), 0);
  EXPECT_EQ(parley_mad_cancel(port(), id + 1), -PARLEY_E_BAD_HANDLE);
  EXPECT_EQ(parley_mad_cancel(port(), id), 0);
  ASSERT_NO_FATAL_FAILURE(take());
  EXPECT_EQ(reply_.id, id);
  EXPECT_EQ(reply_.status, -PARLEY_E_CANCELLED);
  EXPECT_EQ(parley_mad_cancel(port(), id), -PARLEY_E_BAD_HANDLE);
  ASSERT_EQ(parley_mad_post(port(), &ask, &id), 0);  // and close ends one that is under way
}

TEST_F(MadInC, ASimulatorThatIsGoneEndsEveryRequest) {
  parley_mad_request ask = request("SubnGet", "NodeInfo", "0,1");
  ask.timeout_ms = 3'600'000;
  (void)port();
  subnet_->kill();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(parley_mad_post(port(), &ask, nullptr), 0);
  EXPECT_EQ(parley_mad_progress(port()), -PARLEY_E_PEER_CLOSED);
  EXPECT_THAT(parley_last_error(), HasSubstr("ibsim is gone"));
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(parley_mad_poll(port(), &reply_), 1);
    EXPECT_EQ(reply_.status, -PARLEY_E_PEER_CLOSED);
    EXPECT_THAT(reply_.error, HasSubstr("ibsim is gone"));
  }
  EXPECT_EQ(parley_mad_poll(port(), &reply_), 0);
  EXPECT_EQ(call(ask), -PARLEY_E_PEER_CLOSED);
  EXPECT_EQ(parley_mad_post(port(), &ask, nullptr), -PARLEY_E_PEER_CLOSED);
}

TEST_F(MadInC, WhatIsNoRequestIsRefusedWithASentence) {
  const auto refused = [&](const parley_mad_request& ask, const char* why) {
    EXPECT_EQ(parley_mad_post(port(), &ask, nullptr), -PARLEY_E_INVALID_ARGUMENT) << why;
    EXPECT_THAT(parley_last_error(), HasSubstr(why));
  };
  refused(request("SubnFetch", "NodeInfo", "0,"), "no request 'SubnFetch'; there are: SubnGet, SubnSet");
  refused(request("SubnSet", "NodeInfo", "0,"), "SubnSet has no attribute 'NodeInfo'");
  refused(request("SubnGet", nullptr, "0,"), "attribute is null");
  refused(request("SubnGet", "NodeInfo", nullptr), "path is null");
  refused(request("SubnGet", "NodeInfo", "0,300"), "300");
  refused(request("SubnGet", "NodeInfo", "fe80::1%mlx5_0"), "parley_mad_open()");
  refused(request("PerformanceGet", "PortCounters", "0,1"), "only subnet management can use directed routes");
  refused(request(nullptr, nullptr, "5"), "mgmt_class is 0x00");
  parley_mad_request ask = request("SubnGet", "NodeInfo", "0,");
  const char octets[64] = "";
  ask.body = octets;
  ask.body_length = 39;
  refused(ask, "body_length is 39; the attribute has 40 octets");
  ask.body = nullptr;
  refused(ask, "body is null");
  ask.body_length = 0;
  ask.mgmt_class = 1;
  refused(ask, "if `method` is set, the three numbers must be 0");
  ask.mgmt_class = 0;
  ask.set_count = 1;
  refused(ask, "set is null");
  const char* members[] = {"colour=7"};
  ask.set = members;
  refused(ask, "NodeInfo has no member 'colour'; there are:");
  members[0] = nullptr;
  refused(ask, "set[0] is null");
  ask.set_count = 1U << 20;
  refused(ask, "set_count is 1048576");
  ask.set_count = 0;
  ask.retries = 256;
  refused(ask, "retries is 256");
  ask.retries = 0;
  ask.size = 4;
  refused(ask, "the structure's size is 4");
  EXPECT_EQ(parley_mad_post(port(), nullptr, nullptr), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_EQ(parley_mad_call(port(), nullptr, nullptr), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_EQ(parley_mad_poll(port(), nullptr), -PARLEY_E_INVALID_ARGUMENT);
  parley_mad_attr attr = PARLEY_MAD_ATTR_INIT;
  ASSERT_EQ(parley_mad_query(port(), &attr), 0);
  EXPECT_EQ(attr.requests, 0U);  // nothing of it stays
}

TEST_F(MadInC, AHandleThatIsNoneIsRefused) {
  parley_mad* open = port();
  ASSERT_EQ(parley_mad_close(open), 0);
  port_ = nullptr;
  const parley_mad_request ask = request("SubnGet", "NodeInfo", "0,");
  parley_mad_attr attr = PARLEY_MAD_ATTR_INIT;
  for (parley_mad* bad : {open, static_cast<parley_mad*>(nullptr), reinterpret_cast<parley_mad*>(0x1234)}) {
    EXPECT_EQ(parley_mad_close(bad), -PARLEY_E_BAD_HANDLE);
    EXPECT_EQ(parley_mad_query(bad, &attr), -PARLEY_E_BAD_HANDLE);
    EXPECT_EQ(parley_mad_call(bad, &ask, &reply_), -PARLEY_E_BAD_HANDLE);
    EXPECT_EQ(parley_mad_post(bad, &ask, nullptr), -PARLEY_E_BAD_HANDLE);
    EXPECT_EQ(parley_mad_fd(bad), -PARLEY_E_BAD_HANDLE);
    EXPECT_EQ(parley_mad_progress(bad), -PARLEY_E_BAD_HANDLE);
    EXPECT_EQ(parley_mad_poll(bad, &reply_), -PARLEY_E_BAD_HANDLE);
    EXPECT_EQ(parley_mad_cancel(bad, 1), -PARLEY_E_BAD_HANDLE);
  }
}

TEST_F(MadInC, AForkedChildHasNoPort) {
  parley_mad* open = port();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(parley_mad_close(open) == -PARLEY_E_BAD_HANDLE ? 0 : 1);
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(call(request("SubnGet", "NodeInfo", "0,")), 0) << parley_last_error();
}

TEST_F(MadInC, StructuresMayBeOfAnotherVersion) {
  struct {
    parley_mad_reply reply;
    std::uint64_t of_tomorrow;
  } large{};
  std::memset(&large, 0xFF, sizeof large);
  large.reply.size = sizeof large;
  const parley_mad_request ask = request("SubnGet", "NodeInfo", "0,");
  EXPECT_EQ(parley_mad_call(port(), &ask, &large.reply), 0) << parley_last_error();
  EXPECT_EQ(large.reply.size, sizeof large);
  EXPECT_EQ(large.of_tomorrow, 0U);
  parley_mad_reply small{};
  EXPECT_EQ(parley_mad_call(port(), &ask, &small), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_EQ(parley_mad_call(port(), &ask, nullptr), 0);
}

TEST(MadInCOpen, SaysWhyThereIsNothing) {
  parley_mad* none = nullptr;
  EXPECT_EQ(parley_mad_open(nullptr, "ibsim", nullptr), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_EQ(parley_mad_open(&none, "tcp:192.0.2.1", nullptr), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_THAT(parley_last_error(), HasSubstr("is not one of ibsim"));
  EXPECT_EQ(parley_mad_open(&none, "umad:mlx5_0/999", nullptr), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_EQ(parley_mad_open(&none, "ibsim:parley-nobody", nullptr), -PARLEY_E_UNREACHABLE);
  EXPECT_THAT(parley_last_error(), HasSubstr("no ibsim runs with that socket name"));
  parley_mad_opts opts = PARLEY_MAD_OPTS_INIT;
  opts.window = 1025;
  EXPECT_EQ(parley_mad_open(&none, "ibsim", &opts), -PARLEY_E_INVALID_ARGUMENT);
  opts.window = 0;
  opts.retries = 256;
  EXPECT_EQ(parley_mad_open(&none, "ibsim", &opts), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_EQ(none, nullptr);
}

TEST(MadInCMembers, AreReadSetAndWrittenByName) {
  unsigned char octets[64] = "";
  EXPECT_EQ(parley_mad_size("PortInfo"), 64);
  EXPECT_EQ(parley_mad_set("PortInfo", octets, sizeof octets, "lid=0x1234"), 0) << parley_last_error();
  EXPECT_EQ(octets[16], 0x12);
  EXPECT_EQ(octets[17], 0x34);
  std::uint64_t lid = 0;
  EXPECT_EQ(parley_mad_get("PortInfo", octets, sizeof octets, "lid", &lid), 0);
  EXPECT_EQ(lid, 0x1234U);
  unsigned char name[64];
  std::memset(name, 'x', sizeof name);
  EXPECT_EQ(parley_mad_set("NodeDescription", name, sizeof name, "node_string=short"), 0);
  char text[8] = "";
  EXPECT_EQ(parley_mad_text("NodeDescription", name, sizeof name, "node_string", text, sizeof text), 5);
  EXPECT_STREQ(text, "short");  // and nothing of what was there before
  EXPECT_EQ(parley_mad_text("NodeDescription", name, sizeof name, "node_string", text, 3), 5);
  EXPECT_STREQ(text, "sh");
  EXPECT_EQ(parley_mad_text("NodeDescription", name, sizeof name, nullptr, nullptr, 0), 20);  // node_string="short"\n
  unsigned char record[108] = "";
  EXPECT_EQ(parley_mad_set("NodeRecord", record, sizeof record, "node_info.num_ports=36"), 0) << parley_last_error();
  std::uint64_t ports = 0;
  EXPECT_EQ(parley_mad_get("NodeRecord", record, sizeof record, "node_info.num_ports", &ports), 0);
  EXPECT_EQ(ports, 36U);
}

TEST(MadInCMembers, WhatIsNotThereIsRefused) {
  unsigned char octets[64] = "";
  std::uint64_t out = 0;
  const int bad = -PARLEY_E_INVALID_ARGUMENT;
  EXPECT_EQ(parley_mad_size(nullptr), bad);
  EXPECT_EQ(parley_mad_size("Portinfo"), bad);
  EXPECT_THAT(parley_last_error(), HasSubstr("no structure 'Portinfo'"));
  EXPECT_EQ(parley_mad_get("PortInfo", octets, 63, "lid", &out), bad);
  EXPECT_STREQ(parley_last_error(), "length is 63; PortInfo has 64 octets");
  EXPECT_EQ(parley_mad_get("PortInfo", nullptr, 64, "lid", &out), bad);
  EXPECT_EQ(parley_mad_get("PortInfo", octets, 64, nullptr, &out), bad);
  EXPECT_EQ(parley_mad_get("PortInfo", octets, 64, "lid", nullptr), bad);
  EXPECT_EQ(parley_mad_get("PortInfo", octets, 64, "lids", &out), bad);
  EXPECT_EQ(parley_mad_get("PathRecord", octets, 64, "dgid", &out), bad);
  EXPECT_EQ(parley_mad_get("NodeDescription", octets, 64, "node_string", &out), bad);
  EXPECT_EQ(parley_mad_set("PortInfo", octets, 64, nullptr), bad);
  EXPECT_EQ(parley_mad_set("PortInfo", octets, 64, "lid"), bad);
  EXPECT_EQ(parley_mad_set("PortInfo", octets, 64, "lid=65536"), bad);
  EXPECT_EQ(parley_mad_text("PortInfo", octets, 64, "lid", nullptr, 1), bad);
  EXPECT_EQ(octets[16], 0);
}

TEST(MadInCMembers, NamesAndCodesInWords) {
  EXPECT_STREQ(parley_mad_fault_name(PARLEY_MAD_FAULT_NONE), "none");
  EXPECT_STREQ(parley_mad_fault_name(PARLEY_MAD_FAULT_REDIRECT_LOOP), "redirect_loop");
  EXPECT_STREQ(parley_mad_fault_name(PARLEY_MAD_FAULT_INVALID), "invalid");
  EXPECT_STREQ(parley_mad_fault_name(PARLEY_MAD_FAULT_INVALID + 1), "unknown");
  for (int code = PARLEY_E_MAD_STATUS; code <= PARLEY_E_MAD_CUT; ++code)
    EXPECT_STRNE(parley_strerror(-code), "unknown error code") << code;
}

}  // namespace
}  // namespace parley

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A C program answers the requests of another, on a simulated subnet and over RoCE.
#include <gmock/gmock.h>
#include <poll.h>

#include <functional>
#include <numeric>
#include <vector>

#include "parley/bytes.hpp"
#include "parley/mad.h"
#include "tests/unit/capi/subnet_process.hpp"
#include "tests/unit/drivers/own_address.hpp"
#include "tests/unit/hang_limit.hpp"

namespace parley {
namespace mad_serve_test {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t application = 0x2C, vendor = 0x35, vendors_oui = 0x001405;
constexpr std::uint16_t get = 0x01, set = 0x02, send = 0x03, trap = 0x05, get_table = 0x12;

Bytes pattern(std::size_t size) {
  Bytes out(size);
  std::iota(out.begin(), out.end(), std::uint8_t{1});
  return out;
}

class MadAnswersInC : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const bool roce = std::string(GetParam()) == "roce";
    if (!roce) subnet_.emplace();
    const auto host = [](unsigned n) {
      const std::string text = own_address(n, 0).to_string();
      return text.substr(0, text.rfind(':'));
    };
    parley_mad_opts opts = PARLEY_MAD_OPTS_INIT;
    opts.window = 300;
    opts.timeout_ms = 30'000;
    ASSERT_EQ(parley_mad_open(&asker_, roce ? ("roce:" + host(3)).c_str() : subnet_->where("H00001").c_str(), &opts), 0)
        << parley_last_error();
    ASSERT_EQ(parley_mad_open(&server_, roce ? ("roce:" + host(4)).c_str() : subnet_->where("H00002").c_str(), &opts),
              0)
        << parley_last_error();
    parley_mad_attr self = PARLEY_MAD_ATTR_INIT;
    ASSERT_EQ(parley_mad_query(server_, &self), 0);
    path_ = roce ? "::ffff:" + host(4) : std::to_string(self.lid);
  }
  void TearDown() override {
    for (parley_mad* port : {asker_, server_})
      if (port != nullptr) (void)parley_mad_close(port);
  }

  void register_for(std::uint32_t mgmt_class, std::uint64_t methods = 0) {
    parley_mad_service service = PARLEY_MAD_SERVICE_INIT;
    service.mgmt_class = mgmt_class;
    service.oui = mgmt_class == vendor ? vendors_oui : 0;
    service.methods[0] = methods;
    ASSERT_EQ(parley_mad_serve(server_, &service), 0) << parley_last_error();
  }
  parley_mad_request request(std::uint32_t mgmt_class, std::uint16_t method, std::uint16_t attribute) const {
    parley_mad_request out = PARLEY_MAD_REQUEST_INIT;
    out.mgmt_class = mgmt_class;
    out.oui = mgmt_class == vendor ? vendors_oui : 0;
    out.method_number = method;
    out.attribute_number = attribute;
    out.path = path_.c_str();
    return out;
  }
  void turn() {
    pollfd waits[] = {{parley_mad_fd(asker_), POLLIN, 0}, {parley_mad_fd(server_), POLLIN, 0}};
    ASSERT_GT(::poll(waits, 2, hang_milliseconds), 0);
    ASSERT_GE(parley_mad_progress(asker_), 0) << parley_last_error();
    ASSERT_GE(parley_mad_progress(server_), 0) << parley_last_error();
  }
  /// Posts a request, and turns until the server has it.
  void deliver(const parley_mad_request& ask) {
    ASSERT_EQ(parley_mad_post(asker_, &ask, nullptr), 0) << parley_last_error();
    int got = 0;
    while ((got = parley_mad_receive(server_, &incoming_)) == 0 && !HasFatalFailure()) turn();
    ASSERT_EQ(got, 1) << parley_last_error();
  }
  /// Turns until the asker has a reply.
  void take() {
    int got = 0;
    while ((got = parley_mad_poll(asker_, &reply_)) == 0 && !HasFatalFailure()) turn();
    ASSERT_EQ(got, 1) << parley_last_error();
  }
  int respond(std::uint32_t status, const Bytes& body = {}, std::uint32_t record_size = 0) {
    parley_mad_response response = PARLEY_MAD_RESPONSE_INIT;
    response.status = status;
    response.body = body.empty() ? nullptr : body.data();
    response.body_length = body.size();
    response.record_size = record_size;
    return parley_mad_respond(server_, incoming_.id, &response);
  }
  Bytes records() const { return {reply_.records, reply_.records + std::size_t{reply_.count} * reply_.stride}; }

  std::optional<sim::subnet::SubnetProcess> subnet_;
  parley_mad *asker_ = nullptr, *server_ = nullptr;
  std::string path_;
  parley_mad_incoming incoming_ = PARLEY_MAD_INCOMING_INIT;
  parley_mad_reply reply_ = PARLEY_MAD_REPLY_INIT;
};

// IBA §13.4.4, §16.6: 232 octets follow the common header; the class has no OUI.
TEST_P(MadAnswersInC, AnApplicationReceivesARequestAndItsAnswerArrives) {
  register_for(application);
  const Bytes asked = pattern(232), answered(asked.rbegin(), asked.rend());
  parley_mad_request ask = request(application, get, 0x1000);
  ask.modifier = 7;
  ask.body = asked.data();
  ask.body_length = 232;
  ASSERT_NO_FATAL_FAILURE(deliver(ask));
  EXPECT_EQ(incoming_.mgmt_class, application);
  EXPECT_EQ(incoming_.class_version, 1U);
  EXPECT_EQ(incoming_.method, get);
  EXPECT_EQ(incoming_.attribute, 0x1000);
  EXPECT_EQ(incoming_.modifier, 7U);
  EXPECT_EQ(incoming_.oui, 0U);
  EXPECT_EQ(incoming_.qpn, 1U);
  EXPECT_EQ(incoming_.pkey, 0xFFFF);
  EXPECT_EQ(incoming_.answers, 1U);
  EXPECT_EQ(incoming_.structure, nullptr);
  EXPECT_EQ(incoming_.mad_length, 256U);
  EXPECT_EQ(Bytes(incoming_.body, incoming_.body + incoming_.body_length), asked);
  ASSERT_EQ(respond(0, answered), 0) << parley_last_error();
  ASSERT_NO_FATAL_FAILURE(take());
  EXPECT_EQ(reply_.status, 0) << reply_.error;
  EXPECT_EQ(records(), answered);
  parley_mad_response again = PARLEY_MAD_RESPONSE_INIT;
  EXPECT_EQ(parley_mad_respond(server_, incoming_.id, &again), -PARLEY_E_BAD_HANDLE) << "it is answered";
}

TEST_P(MadAnswersInC, ARequestHasThePathToItsSender) {
  register_for(application);
  ASSERT_NO_FATAL_FAILURE(deliver(request(application, get, 0x1000)));
  parley_mad_service service = PARLEY_MAD_SERVICE_INIT;
  service.mgmt_class = application;
  ASSERT_EQ(parley_mad_serve(asker_, &service), 0) << parley_last_error();
  const std::string back = incoming_.path;
  parley_mad_request ask = request(application, set, 0x1001);
  ask.path = back.c_str();
  ASSERT_EQ(parley_mad_post(server_, &ask, nullptr), 0) << back << ": " << parley_last_error();
  int got = 0;
  while ((got = parley_mad_receive(asker_, &incoming_)) == 0 && !HasFatalFailure()) turn();
  EXPECT_EQ(got, 1);
  EXPECT_EQ(incoming_.attribute, 0x1001);
}

// IBA §13.4.8.1: the attribute of all classes; by name.
TEST_P(MadAnswersInC, ClassPortInfoIsKnownInEveryClassThatHasIt) {
  const struct {
    const char *method, *of;
    std::uint32_t mgmt_class;
  } rows[] = {{"ApplicationGet", "class=0x2F", 0x2F}, {"VendGet", "class=0x0A", 0x0A}, {"CCGet", "key=5", 0x21}};
  for (const auto& row : rows) {
    register_for(row.mgmt_class);
    parley_mad_request ask = PARLEY_MAD_REQUEST_INIT;
    ask.method = row.method;
    ask.attribute = "ClassPortInfo";
    ask.set = &row.of;
    ask.set_count = 1;
    ask.path = path_.c_str();
    ASSERT_NO_FATAL_FAILURE(deliver(ask)) << row.method;
    EXPECT_EQ(incoming_.mgmt_class, row.mgmt_class);
    ASSERT_NE(incoming_.structure, nullptr) << row.method;
    Bytes info(static_cast<std::size_t>(parley_mad_size(incoming_.structure)));
    ASSERT_EQ(parley_mad_set(incoming_.structure, info.data(), info.size(), "resp_time_value=18"), 0);
    ASSERT_EQ(respond(0, info), 0) << parley_last_error();
    ASSERT_NO_FATAL_FAILURE(take());
    ASSERT_EQ(reply_.status, 0) << reply_.error;
    std::uint64_t value = 0;
    EXPECT_EQ(parley_mad_get(reply_.structure, reply_.records, reply_.stride, "resp_time_value", &value), 0);
    EXPECT_EQ(value, 18U) << row.method;
  }
}

TEST_P(MadAnswersInC, AVendorAnswersBySegmentsAndByStatus) {
  register_for(vendor, 1U << get | 1U << get_table);
  ASSERT_NO_FATAL_FAILURE(deliver(request(vendor, get_table, 0x10)));
  EXPECT_EQ(incoming_.oui, vendors_oui);
  const Bytes all = pattern(60'000);
  ASSERT_EQ(respond(0, all), 0) << parley_last_error();
  ASSERT_NO_FATAL_FAILURE(take());
  EXPECT_EQ(reply_.status, 0) << reply_.error;
  EXPECT_EQ(records(), all);
  for (const std::uint16_t method : {get_table, get}) {
    ASSERT_NO_FATAL_FAILURE(deliver(request(vendor, method, 0x11)));
    ASSERT_EQ(respond(0x0C), 0) << parley_last_error();
    ASSERT_NO_FATAL_FAILURE(take());
    EXPECT_EQ(reply_.status, -PARLEY_E_MAD_STATUS);
    EXPECT_EQ(reply_.mad_status, 0x0CU);
  }
}

// The kernel delivers to the agent of class, version, OUI and method, and drops what has none.
TEST_P(MadAnswersInC, OnlyRequestsThatItRegisteredForArrive) {
  register_for(application, 1U << set);
  register_for(vendor);
  std::vector<parley_mad_request> asks(4, request(application, set, 0x1000));
  asks[0].class_version = 2;
  asks[1].method_number = get;
  asks[2].mgmt_class = 0x2D;
  asks[3] = request(vendor, get, 0x1000);
  asks[3].oui = 0x00ABCD;
  for (parley_mad_request& ask : asks) {
    ask.timeout_ms = 1;
    ask.retries = PARLEY_MAD_NO_RETRIES;
    ASSERT_EQ(parley_mad_post(asker_, &ask, nullptr), 0) << parley_last_error();
  }
  ASSERT_NO_FATAL_FAILURE(deliver(request(application, set, 0x1234)));
  EXPECT_EQ(incoming_.attribute, 0x1234) << "behind all of the others";
}

TEST_P(MadAnswersInC, AnAnswerThatCannotBeIsRefusedAndTheRequestStays) {
  register_for(application, 1U << get | 1U << send | 1U << trap);
  ASSERT_NO_FATAL_FAILURE(deliver(request(application, get, 0x1000)));
  EXPECT_EQ(respond(0, pattern(233)), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_THAT(parley_last_error(), HasSubstr("body_length is 233; an answer to this method has room for 232 octets"));
  EXPECT_EQ(respond(0x10000), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_THAT(parley_last_error(), HasSubstr("status is 0x10000; it has 16 bits"));
  EXPECT_EQ(respond(0), 0) << parley_last_error();
  ASSERT_NO_FATAL_FAILURE(take());
  EXPECT_EQ(records(), Bytes(232));
  ASSERT_NO_FATAL_FAILURE(deliver(request(application, trap, 0x0002)));
  EXPECT_EQ(respond(0x08), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_THAT(parley_last_error(), HasSubstr("a trap can be repressed, not refused"));
  EXPECT_EQ(parley_mad_respond(server_, incoming_.id, nullptr), 0) << "dropped";
  EXPECT_EQ(respond(0), -PARLEY_E_BAD_HANDLE);
  ASSERT_NO_FATAL_FAILURE(deliver(request(application, send, 0x0020)));
  EXPECT_EQ(incoming_.answers, 0U);
  EXPECT_EQ(respond(0), -PARLEY_E_BAD_HANDLE);
}

TEST_P(MadAnswersInC, ATableThatNoMessageHoldsIsRefusedBeforeItIsMade) {
  constexpr std::uint32_t administration = 0x03;
  register_for(administration, 1U << get_table);
  ASSERT_NO_FATAL_FAILURE(deliver(request(administration, get_table, 0x11)));
  EXPECT_EQ(respond(0, pattern(600'000), 600'000), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_THAT(parley_last_error(), HasSubstr("record_size is 600000; a record has at most 524280 octets"));
  EXPECT_EQ(respond(0, Bytes(16 << 20), 1), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_THAT(parley_last_error(), HasSubstr("the records have 134217728 octets, each at a multiple of 8"));
  const std::uint8_t octet = 0;
  parley_mad_response much = PARLEY_MAD_RESPONSE_INIT;
  much.body = &octet;  // is not read
  much.body_length = std::uint64_t{1} << 32;
  much.record_size = 8;
  EXPECT_EQ(parley_mad_respond(server_, incoming_.id, &much), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_THAT(parley_last_error(), HasSubstr("body_length is 4294967296; a message has at most 67108864 octets"));
  EXPECT_EQ(respond(0, pattern(16), 8), 0) << parley_last_error();
}

TEST_P(MadAnswersInC, RequestsWithoutAnswerAreBounded) {
  register_for(application);
  parley_mad_request ask = request(application, get, 0x1000);
  ask.timeout_ms = 1;  // so that the asker's window does not fill
  ask.retries = PARLEY_MAD_NO_RETRIES;
  for (int i = 0; i < PARLEY_MAD_INCOMING_MAX; ++i) ASSERT_NO_FATAL_FAILURE(deliver(ask));
  ASSERT_EQ(parley_mad_post(asker_, &ask, nullptr), 0) << parley_last_error();
  int got = 0;
  while ((got = parley_mad_receive(server_, &incoming_)) == 0 && !HasFatalFailure()) turn();
  EXPECT_EQ(got, -PARLEY_E_NO_SPACE);
  EXPECT_THAT(parley_last_error(), HasSubstr("256 requests are unanswered"));
  ASSERT_EQ(respond(0), 0) << parley_last_error();
  EXPECT_EQ(parley_mad_receive(server_, &incoming_), 1) << "it has waited";
}

TEST_P(MadAnswersInC, ARegistrationThatCannotBeIsRefused) {
  const struct {
    std::uint32_t mgmt_class, class_version, oui;
    std::uint64_t methods;
    const char* why;
  } rows[] = {{0x50, 0, 0, 0, "mgmt_class is 0x50, a class that is not known"},
              {application, 0, 1, 0, "oui is 0x1; it has 24 bits, and is 0 for a class without an OUI"},
              {vendor, 0, 0x1000000, 0, "oui is 0x1000000"},
              {application, 256, 0, 0, "class_version is 256; it is at most 255"},
              {application, 0, 0, 1, "methods has bit 0"}};
  for (const auto& row : rows) {
    parley_mad_service service = PARLEY_MAD_SERVICE_INIT;
    service.mgmt_class = row.mgmt_class;
    service.class_version = row.class_version;
    service.oui = row.oui;
    service.methods[0] = row.methods;
    EXPECT_EQ(parley_mad_serve(server_, &service), -PARLEY_E_INVALID_ARGUMENT) << row.why;
    EXPECT_THAT(parley_last_error(), HasSubstr(row.why));
  }
}

INSTANTIATE_TEST_SUITE_P(Over, MadAnswersInC, testing::Values("subnet", "roce"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace mad_serve_test
}  // namespace parley

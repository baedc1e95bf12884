// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every capture of tests/captures has its reviewed verdict in tests/golden. PARLEY_REWRITE=1 writes them anew: look at
// the difference before keeping it.
#include <gtest/gtest.h>

#include <cstdlib>

#include "capture/report/json.hpp"
#include "tests/unit/capture/ids.hpp"

namespace parley::capture {
namespace {

/// The report as JSON with a line for each connection and each finding. Of a finding frame, severity, side and key are compared;
/// its sentence and clause are the table's (capture_sentences.txt has one of each form).
std::string by_ids(const std::string& file, const FileReport& report) {
  std::string out = to_json(file, report);
  const std::string_view from = R"(,"rule":")", text = R"("text":")";
  for (std::size_t at = out.find(from); at != std::string::npos; at = out.find(from, at)) {
    std::size_t end = out.find(text, at) + text.size();
    while (out[end] != '"') end += out[end] == '\\' ? 2 : 1;
    out.erase(at, end + 1 - at);
  }
  for (const std::string_view begins : {R"({"transport":)", R"({"protocol":"neg")", R"({"frame":)"})
    for (std::size_t at = out.find(begins); at != std::string::npos; at = out.find(begins, at + 2 + begins.size()))
      if (out[at - 1] == '[' || out[at - 1] == ',') out.insert(at, "\n");
  return out + "\n";
}

void expect_reviewed(const std::string& folder, const std::string& name, const FileReport& report) {
  const std::string now = by_ids(name + ".pcap", report);
  const std::string path = PARLEY_SOURCE_DIR "/tests/golden/" + folder + "/" + name + ".json";
  if (std::getenv("PARLEY_REWRITE") != nullptr) std::ofstream(path, std::ios::binary) << now;
  const Bytes expected = test::read_file(path);
  EXPECT_EQ(std::string(expected.begin(), expected.end()), now);
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, VerdictIsTheReviewedOne) {
  const Bytes file = test::read_file(test::capture_path(GetParam()));
  ASSERT_FALSE(file.empty());
  expect_reviewed("iwarp", GetParam(), test::analyse_file(file));
}

// Programs read the side; it is the one of which the sentence speaks.
TEST_P(Golden, FindingsNameTheirSide) {
  for (const auto& c : test::analyse_file(test::read_file(test::capture_path(GetParam()))).connections)
    for (const Finding& f : c.findings) {
      EXPECT_TRUE(f.severity != Severity::error || f.side) << f.text;
      for (const Side side : {Side::initiator, Side::responder}) {
        const bool spoken_of = f.text.starts_with(std::string("the ").append(to_string(side)).append(" "));
        EXPECT_TRUE(!spoken_of || f.side == side) << f.text;
      }
    }
}

// Staged QP negotiations, real ones.
class NegotiationGolden : public testing::TestWithParam<std::string> {};

TEST_P(NegotiationGolden, VerdictIsTheReviewedOne) {
  const std::string tests = std::string(PARLEY_SOURCE_DIR) + "/tests/";
  const Bytes file = test::read_file(tests + "captures/neg/" + GetParam() + ".pcap");
  ASSERT_FALSE(file.empty());
  expect_reviewed("neg", GetParam(), test::analyse_file(file));
}

INSTANTIATE_TEST_SUITE_P(Captures, NegotiationGolden, testing::Values("ipv6_ud", "manual", "refused", "xrc"),
                         [](const auto& which) { return which.param; });

// RoCEv2 of Linux's software driver.
class RoceGolden : public testing::TestWithParam<std::string> {};

TEST_P(RoceGolden, VerdictIsTheReviewedOne) {
  const std::string tests = std::string(PARLEY_SOURCE_DIR) + "/tests/";
  const Bytes file = test::read_file(tests + "captures/roce/" + GetParam() + ".pcap");
  ASSERT_FALSE(file.empty());
  const FileReport report = test::analyse_file(file);
  EXPECT_EQ(report.count(Severity::error) + report.count(Severity::warning), 0u) << test::words(report);
  expect_reviewed("roce", GetParam(), report);
}

INSTANTIATE_TEST_SUITE_P(Captures, RoceGolden,
                         testing::Values("rxe61_cm", "rxe61_data", "rxe61_errors_loss", "rxe61_mra_mcast_ll",
                                         "rxe61_sidr_stale_abort", "rxe61_unreachable"),
                         [](const auto& which) { return which.param; });

// Valid conversations of which a capture shows less than all: nobody is accused.
class Adversarial : public testing::TestWithParam<std::string> {};

TEST_P(Adversarial, NobodyIsAccusedOfWhatTheCaptureLacks) {
  const std::string tests = std::string(PARLEY_SOURCE_DIR) + "/tests/";
  const Bytes file = test::read_file(tests + "captures/adversarial/" + GetParam() + ".pcap");
  ASSERT_FALSE(file.empty());
  const FileReport report = test::analyse_file(file);
  EXPECT_EQ(report.count(Severity::error), 0u) << test::words(report);
  for (const auto& c : report.connections) EXPECT_NE(c.outcome, Outcome::failed);
  expect_reviewed("adversarial", GetParam(), report);
}

INSTANTIATE_TEST_SUITE_P(Captures, Adversarial,
                         testing::Values("fa1_terminate_quotes_lost_segment", "fa2_reads_outstanding_lost_response",
                                         "fa3_snaplen96_ipv6_enhanced", "fa4_request_tail_captured_after_reply",
                                         "fa5_rtr_frame_lost_markers_crc0", "fa6_crc_off_loss_payload_like_header",
                                         "fa7_late_capture_retransmitted_request", "fa9_mo_order_within_message",
                                         "fw1_request_lost_markers_outcome_failed", "pw3_request_lost_rtr_frame",
                                         "pw_seed1", "pw_seed1049", "pw_seed1265"),
                         [](const auto& which) { return which.param; });

INSTANTIATE_TEST_SUITE_P(Captures, Golden, testing::ValuesIn(test::capture_names()),
                         [](const auto& which) { return which.param; });

}  // namespace
}  // namespace parley::capture

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Captures of tests/captures/verdicts: what each of them is worth, who has broken which rule in which frame, and what is said of it.
#include <gtest/gtest.h>

#include "capture/report/json.hpp"
#include "capture/report/text.hpp"
#include "tests/unit/capture/roce_kit.hpp"

namespace parley::capture::verdicts_test {
namespace {

FileReport judged(const std::string& file, const AnalyzerOptions& options = {}) {
  const Bytes octets = test::read_file(std::string(PARLEY_SOURCE_DIR) + "/tests/captures/verdicts/" + file);
  EXPECT_FALSE(octets.empty()) << file;
  Analyzer analyzer(options);
  const auto error = wire::read_capture(octets, [&](const wire::CapturedPacket& p) { analyzer.push(p); });
  EXPECT_FALSE(error) << file;
  return analyzer.finish();
}

/// "established passed" of each connection.
std::string standings(const FileReport& r) {
  std::string out;
  for (const auto& c : r.connections)
    out += std::string(out.empty() ? "" : "; ") + std::string(to_string(c.outcome)) + " " +
           std::string(to_string(c.judgement.standing));
  return out;
}

struct Due {
  std::string file, connections, findings;
};
void PrintTo(const Due& due, std::ostream* out) { *out << due.file; }

class CaptureVerdicts : public testing::TestWithParam<Due> {};

TEST_P(CaptureVerdicts, AreRight) {
  const FileReport r = judged(GetParam().file);
  EXPECT_EQ(standings(r), GetParam().connections) << test::words(r);
  EXPECT_EQ(test::keys_of(r), GetParam().findings) << test::words(r);
}

INSTANTIATE_TEST_SUITE_P(
    NobodyIsAccused, CaptureVerdicts,
    testing::Values(
        Due{"62_same_ids_again_after_end.pcap", "established passed; established passed; established passed", ""},
        Due{"63_reboot_same_ids_rej10_then_accepted.pcap", "established passed; rejected passed; established passed",
            ""},
        Due{"false_credit_limit.pcap", "established passed", ""},
        Due{"false_early_parley_obeys_parleys_mra.pcapng", "established passed; established passed", ""},
        Due{"false_hard_after-end.pcap", "established passed", ""},
        Due{"false_length_rep_lost.pcap", "handshake not captured partial; handshake not captured partial", ""},
        Due{"false_p_key_rep_lost.pcap", "handshake not captured partial; handshake not captured partial", ""},
        Due{"false_read_response_reordered_req.pcap", "established partial", ""},
        Due{"lone_rej.pcap", "rejected partial", ""}, Due{"lone_mpa_reject.pcap", "rejected partial", ""},
        Due{"12a_vxlan.pcap", "established passed", ""}, Due{"40_rnr_timer_0.pcap", "established passed", ""},
        Due{"41_dreq_without_answer.pcap", "established passed", ""},
        Due{"46_rep_after_initiator_gave_up.pcap", "failed failed", ""},
        Due{"06_nvme_reject_28_status_6.pcap", "rejected passed", ""},
        Due{"66_read_again_inside_write_then_nak.pcap", "established failed", ""}));

INSTANTIATE_TEST_SUITE_P(
    TheCulpritIsFound, CaptureVerdicts,
    testing::Values(Due{"cascade_rep_ids_swapped.pcap", "established failed", "error cm.comm-id frame 2 responder"},
                    Due{"miss_rtu_ids_swapped.pcap", "established failed", "error cm.comm-id frame 3 initiator"},
                    Due{"miss_uc_on_rc_queue_pair.pcap", "established failed", "error ib.service frame 6 responder"},
                    Due{"miss_msn_high.pcap", "established failed", "error ib.msn frame 7 responder"},
                    Due{"miss_ack_with_payload.pcap", "established failed", "error ib.ack-form frame 7 responder"},
                    Due{"miss_rep_too_often.pcap", "established failed", "error cm.retries frame 5 responder"},
                    Due{"miss_rnr_retry_exceeded.pcap", "established failed",
                        "error ib.rnr-retries frame 12 initiator"},
                    Due{"miss_rtu_after_own_rej.pcap", "rejected passed", "warning cm.after-rej frame 4 initiator"},
                    Due{"53_read_though_no_responder_resources.pcap", "established failed",
                        "error ib.outstanding frame 4 initiator"},
                    Due{"48_hns_reserved_bit.pcap", "established passed", "warning ib.reserved frame 4 initiator"},
                    Due{"54_icrc_of_one_side_zero_offload.pcap", "established passed",
                        "warning ib.icrc-unmade frame 1 initiator"}));

std::string text_of(const FileReport& r, std::uint64_t frame) {
  std::string out;
  for (const auto& c : r.connections)
    for (const Finding& f : c.findings)
      if (f.frame == frame) out += f.text + "\n";
  return out;
}

TEST(CaptureVerdictsSay, HowOftenAHabitWasSeen) {
  const FileReport r = judged("48_hns_reserved_bit.pcap");
  EXPECT_EQ(r.count(Severity::warning), 1u);
  EXPECT_NE(text_of(r, 4).find("in 40 packets"), std::string::npos);
  EXPECT_NE(text_of(r, 4).find("frame 82"), std::string::npos);
  EXPECT_NE(text_of(r, 4).find("as hns does (quirk sets-reserved-bit)"), std::string::npos);
}

TEST(CaptureVerdictsSay, WhatRnrNaksAskFor) {
  EXPECT_NE(text_of(judged("40_rnr_timer_0.pcap"), 5).find("655.36 ms"), std::string::npos);
}

TEST(CaptureVerdictsSay, ThatNobodyAnswersADreq) {
  EXPECT_NE(text_of(judged("41_dreq_without_answer.pcap"), 21).find("16 DREQs"), std::string::npos);
}

TEST(CaptureVerdictsSay, ThatANakHasNoVisibleCause) {
  EXPECT_NE(text_of(judged("66_read_again_inside_write_then_nak.pcap"), 16).find("gives cause"), std::string::npos);
  EXPECT_EQ(text_of(judged("53_read_though_no_responder_resources.pcap"), 5).find("gives cause"), std::string::npos);
}

// The REP came 4 s after its REQ; before it and after it the initiator sent a REJ, each for another reason.
TEST(CaptureVerdictsSay, WhichMessageCameWhen) {
  const FileReport r = judged("46_rep_after_initiator_gave_up.pcap");
  const std::string text = to_text("a.pcap", r, {.width = 1000});
  EXPECT_NE(text.find("REP 4.00 s"), std::string::npos) << text;
  EXPECT_EQ(text.find("sent again"), std::string::npos) << text;
  EXPECT_NE(text_of(r, 2), "");
  EXPECT_NE(text_of(r, 4), "");
  EXPECT_EQ(r.connections.at(0).ib->retries, 0u);
}

TEST(CaptureVerdictsSay, WhyAProgramRejected) {
  const FileReport r = judged("06_nvme_reject_28_status_6.pcap");
  const std::string json = to_json("a.pcap", r);
  for (const char* const each : {R"("code":28)", R"("hex":"000006")", R"("ulp_status":"NVMe: status 6, no resources")"})
    EXPECT_NE(json.find(each), std::string::npos) << each << "\n" << json;
  const std::string text = to_text("a.pcap", r, {.width = 1000});
  for (const char* const each : {"(28)", "NVMe: status 6", "00 00 06"})
    EXPECT_NE(text.find(each), std::string::npos) << each << "\n" << text;
}

TEST(CaptureVerdictsSay, NothingOfIcrcsThatAreLeftAside) {
  const FileReport r = judged("54_icrc_of_one_side_zero_offload.pcap", {.no_icrc = true});
  EXPECT_EQ(standings(r), "established passed");
  EXPECT_EQ(test::keys_of(r), "");
}

}  // namespace
}  // namespace parley::capture::verdicts_test

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Trace events in, Prometheus' text out: what is counted as what, when times begin and end, and that nothing a peer says
// can break the text or make it grow.
#include "ops/metrics/metrics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>

#include "parley/ib.hpp"
#include "parley/mpa.hpp"
#include "parley/result.hpp"
#include "wire/rdmap.hpp"

namespace parley::ops {
namespace {

using namespace std::chrono_literals;

/// A collector, and events at times of the test's choice.
struct Fed {
  Metrics metrics{"1.2.3"};
  template <class E>
  void at(Duration when, std::uint64_t connection, const E& event) {
    const trace::Event any(std::in_place_type<E>, event);
    metrics.record({Instant{1000s + when}, connection, {}, {}, any});
  }
  void state(Duration when, std::uint64_t connection, std::string_view from, std::string_view to) {
    at(when, connection, trace::CmState{.from = from, .to = to});
  }
  void frame(Duration when, std::uint64_t connection, bool sent, std::string_view kind) {
    at(when, connection, trace::MpaFrame{.sent = sent, .kind = kind});
  }
  /// The value of a sample as it stands in the text; "none" if it does not.
  std::string operator[](std::string_view sample) const {
    const std::string text = "\n" + metrics.text();
    const std::string wanted = "\n" + std::string(sample) + " ";
    const std::size_t found = text.find(wanted);
    if (found == std::string::npos) return "none";
    const std::size_t begin = found + wanted.size();
    return text.substr(begin, text.find('\n', begin) - begin);
  }
  /// An initiator's set-up of 10 ms: TCP 1, Request 2, Reply 3, the rest 4.
  void set_up(std::uint64_t connection, Duration from = 0ms) {
    state(from, connection, "noted", "opening");
    state(from + 1ms, connection, "opening", "startup");
    frame(from + 3ms, connection, true, "Request");
    frame(from + 6ms, connection, false, "Reply");
    at(from + 10ms, connection, trace::Established{});
    state(from + 10ms, connection, "startup", "open");
  }
};

TEST(Metrics, TakesTheTimeOfEachStageOfAnInitiator) {
  Fed fed;
  fed.set_up(1);
  EXPECT_EQ(fed[R"(parley_setup_seconds_sum{role="initiator"})"], "0.01");
  EXPECT_EQ(fed[R"(parley_setup_seconds_count{role="initiator"})"], "1");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="initiator",stage="transport"})"], "0.001");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="initiator",stage="request"})"], "0.002");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="initiator",stage="reply"})"], "0.003");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="initiator",stage="ready"})"], "0.004");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="initiator",stage="decision"})"], "none");
  EXPECT_EQ(fed[R"(parley_setup_seconds_count{role="responder"})"], "0");
}

TEST(Metrics, TakesTheTimeOfEachStageOfAResponder) {
  Fed fed;
  fed.at(0ms, 1, trace::Admitted{});
  fed.frame(1ms, 1, false, "Request");
  fed.state(1ms, 1, "startup", "deciding");
  fed.at(3ms, 1, trace::Decided{.accept = true});
  fed.frame(6ms, 1, true, "Reply");
  fed.at(10ms, 1, trace::Established{});
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="responder",stage="request"})"], "0.001");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="responder",stage="decision"})"], "0.002");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="responder",stage="reply"})"], "0.003");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="responder",stage="ready"})"], "0.004");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="responder",stage="transport"})"], "none");
  EXPECT_EQ(fed[R"(parley_setup_seconds_sum{role="responder"})"], "0.01");
  EXPECT_EQ(fed[R"(parley_connections{role="responder"})"], "1");
  EXPECT_EQ(fed[R"(parley_connections_started_total{role="responder"})"], "1");
  EXPECT_EQ(fed[R"(parley_rejects_total{reason="rejected",direction="sent"})"], "none");
}

TEST(Metrics, ABucketHoldsTheTimeThatEqualsItsLimit) {
  Fed fed;
  fed.set_up(1);
  EXPECT_EQ(fed[R"(parley_setup_seconds_bucket{role="initiator",le="0.005"})"], "0");
  EXPECT_EQ(fed[R"(parley_setup_seconds_bucket{role="initiator",le="0.01"})"], "1");
  EXPECT_EQ(fed[R"(parley_setup_seconds_bucket{role="initiator",le="60"})"], "1");
  EXPECT_EQ(fed[R"(parley_setup_seconds_bucket{role="initiator",le="+Inf"})"], "1");
}

TEST(Metrics, ATimeBeyondAllLimitsIsInTheLastBucketAlone) {
  Histogram times;
  times.observe(61s);
  times.observe(-1s);
  Exposition out;
  out.family("x_seconds", Exposition::Type::histogram, "");
  out.sample({}, times);
  EXPECT_NE(out.text().find("x_seconds_bucket{le=\"60\"} 1\nx_seconds_bucket{le=\"+Inf\"} 2\nx_seconds_sum 61\n"),
            std::string::npos)
      << out.text();
}

TEST(Metrics, ARetriedSetUpHasItsWholeTimeAndTheStagesOfEachAttempt) {
  Fed fed;
  const cm::Failure why{.step = mpa::step::wait_reply, .code = make_error_code(Errc::peer_reset)};
  fed.state(0ms, 1, "noted", "opening");
  fed.state(1ms, 1, "opening", "startup");
  fed.frame(1ms, 1, true, "Request");
  fed.at(20ms, 1, trace::Retrying{.next = {}, .wait = 30ms, .why = why});
  fed.state(20ms, 1, "startup", "waiting");
  fed.state(50ms, 1, "waiting", "opening");
  fed.state(52ms, 1, "opening", "startup");
  fed.frame(52ms, 1, true, "Request");
  fed.frame(55ms, 1, false, "Reply");
  fed.at(55ms, 1, trace::Established{});
  EXPECT_EQ(fed[R"(parley_retries_total{reason="peer_reset"})"], "1");
  EXPECT_EQ(fed[R"(parley_setup_seconds_sum{role="initiator"})"], "0.055");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="initiator",stage="transport"})"], "0.003");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_count{role="initiator",stage="transport"})"], "2");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="initiator",stage="reply"})"], "0.003");
  EXPECT_EQ(fed[R"(parley_connections_started_total{role="initiator"})"], "1");
}

void kernel(Fed& fed, Duration when, std::uint64_t connection, bool sent, std::string_view kind,
            std::string_view reason = {}) {
  fed.at(when, connection, trace::KernelMessage{.sent = sent, .kind = kind, .implied = "", .reason = reason});
}

TEST(Metrics, TakesTheStagesOfAnInitiatorOverRoce) {
  Fed fed;
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_count{role="initiator",stage="resolve"})"], "none");
  fed.state(0ms, 1, "noted", "addr");
  fed.state(1ms, 1, "addr", "route");
  fed.state(3ms, 1, "route", "connecting");
  kernel(fed, 6ms, 1, true, "REQ");
  kernel(fed, 10ms, 1, false, "REP");
  kernel(fed, 11ms, 1, true, "RTU");
  fed.at(15ms, 1, trace::Established{});
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="initiator",stage="resolve"})"], "0.001");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="initiator",stage="route"})"], "0.002");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_count{role="initiator",stage="transport"})"], "0");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="initiator",stage="request"})"], "0.003");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="initiator",stage="reply"})"], "0.004");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="initiator",stage="ready"})"], "0.005");
  EXPECT_EQ(fed[R"(parley_setup_seconds_sum{role="initiator"})"], "0.015");
  EXPECT_EQ(fed[R"(parley_messages_total{type="ib_req",direction="sent"})"], "1");
  EXPECT_EQ(fed[R"(parley_messages_total{type="ib_rep",direction="received"})"], "1");
  EXPECT_EQ(fed[R"(parley_messages_total{type="ib_rtu",direction="sent"})"], "1");
}

TEST(Metrics, OverAnIwarpDeviceTheKernelsPartIsOneStage) {
  Fed fed;
  fed.state(0ms, 1, "noted", "addr");
  fed.state(1ms, 1, "addr", "route");
  fed.state(3ms, 1, "route", "connecting");
  kernel(fed, 10ms, 1, true, "Request");
  kernel(fed, 10ms, 1, false, "Reply");
  fed.at(10ms, 1, trace::Established{});
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_count{role="initiator",stage="request"})"], "0");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="initiator",stage="reply"})"], "0.007");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="initiator",stage="ready"})"], "0");
  EXPECT_EQ(fed[R"(parley_messages_total{type="mpa_request",direction="sent"})"], "1");
}

TEST(Metrics, AResponderOverANicBeginsWithTheRequest) {
  Fed fed;
  kernel(fed, 0ms, 1, false, "REQ");
  fed.at(0ms, 1, trace::Requested{.private_data = 0, .device = "rxe0"});
  fed.at(2ms, 1, trace::Decided{.accept = true});
  kernel(fed, 5ms, 1, true, "REP");
  fed.at(9ms, 1, trace::Established{});
  EXPECT_EQ(fed[R"(parley_connections_started_total{role="responder"})"], "1");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_count{role="responder",stage="request"})"], "0");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="responder",stage="decision"})"], "0.002");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="responder",stage="reply"})"], "0.003");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="responder",stage="ready"})"], "0.004");
  EXPECT_EQ(fed[R"(parley_setup_seconds_sum{role="responder"})"], "0.009");
  EXPECT_EQ(fed[R"(parley_connections{role="responder"})"], "1");
}

TEST(Metrics, ANicsNextAttemptIsNoNewConnection) {
  Fed fed;
  fed.state(0ms, 1, "noted", "addr");
  fed.state(1ms, 1, "addr", "route");
  fed.state(2ms, 1, "route", "connecting");
  kernel(fed, 2ms, 1, true, "REQ");
  kernel(fed, 3ms, 1, false, "REJ", "invalid_service_id");
  fed.at(3ms, 1, trace::Retrying{.next = {}, .wait = {}, .why = {}});
  fed.state(3ms, 1, "connecting", "queued");
  fed.state(20ms, 1, "queued", "addr");
  fed.state(21ms, 1, "addr", "route");
  fed.state(22ms, 1, "route", "connecting");
  kernel(fed, 22ms, 1, true, "REQ");
  kernel(fed, 25ms, 1, false, "REP");
  fed.at(25ms, 1, trace::Established{});
  EXPECT_EQ(fed[R"(parley_connections_started_total{role="initiator"})"], "1");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="initiator",stage="resolve"})"], "0.002");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="initiator",stage="reply"})"], "0.003");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_count{role="initiator",stage="reply"})"], "1");
  EXPECT_EQ(fed[R"(parley_setup_seconds_sum{role="initiator"})"], "0.025");
  EXPECT_EQ(fed[R"(parley_rejects_total{reason="invalid_service_id",direction="received"})"], "1");
}

std::string stage(const Fed& fed, std::string_view role, std::string_view name, std::string_view what = "sum") {
  return fed["parley_setup_stage_seconds_" + std::string(what) + "{role=\"" + std::string(role) + "\",stage=\"" +
             std::string(name) + "\"}"];
}

/// Parley's own RoCE: phases tell when the REQ left, the REP came, and the other way round.
TEST(Metrics, TakesTheTimeOfEachStageOverRoce) {
  Fed fed;
  fed.state(0ms, 1, "noted", "binding");
  fed.state(2ms, 1, "binding", "requesting");
  fed.state(7ms, 1, "requesting", "open");
  fed.at(7ms, 1, trace::Established{});
  EXPECT_EQ(stage(fed, "initiator", "request"), "0.002");
  EXPECT_EQ(stage(fed, "initiator", "reply"), "0.005");
  EXPECT_EQ(stage(fed, "initiator", "ready"), "0");
  EXPECT_EQ(fed[R"(parley_setup_seconds_sum{role="initiator"})"], "0.007");
  fed.at(10ms, 2, trace::Admitted{});
  fed.at(13ms, 2, trace::Decided{true});
  fed.state(14ms, 2, "decided", "accepting");
  fed.state(18ms, 2, "accepting", "open");
  fed.at(18ms, 2, trace::Established{});
  EXPECT_EQ(stage(fed, "responder", "decision"), "0.003");
  EXPECT_EQ(stage(fed, "responder", "reply"), "0.001");
  EXPECT_EQ(stage(fed, "responder", "ready"), "0.004");
  EXPECT_EQ(fed[R"(parley_setup_seconds_sum{role="responder"})"], "0.008");
}

/// As with the other transports: the wait between attempts is in no stage, but in the whole.
TEST(Metrics, AnAttemptOverRoceBeginsBehindItsBackOff) {
  Fed fed;
  fed.state(0ms, 1, "noted", "binding");
  fed.state(1ms, 1, "binding", "requesting");
  const cm::Failure why{.code = make_error_code(Errc::refused)};
  fed.at(4ms, 1, trace::Retrying{.next = {}, .wait = 100ms, .why = why});
  fed.state(4ms, 1, "requesting", "waiting");
  fed.state(104ms, 1, "waiting", "binding");
  fed.state(106ms, 1, "binding", "requesting");
  fed.state(110ms, 1, "requesting", "open");
  fed.at(110ms, 1, trace::Established{});
  EXPECT_EQ(stage(fed, "initiator", "request"), "0.003");
  EXPECT_EQ(stage(fed, "initiator", "request", "count"), "2");
  EXPECT_EQ(stage(fed, "initiator", "reply"), "0.004") << "of the attempt that came to it";
  EXPECT_EQ(fed[R"(parley_setup_seconds_sum{role="initiator"})"], "0.11");
}

TEST(Metrics, ANicsPhaseIsNoSecondReply) {
  Fed fed;
  fed.at(0ms, 1, trace::Requested{.device = "rxe0"});
  fed.at(1ms, 1, trace::Decided{true});
  kernel(fed, 3ms, 1, true, "REP");
  fed.state(3ms, 1, "decided", "accepting");
  fed.at(8ms, 1, trace::Established{});
  EXPECT_EQ(stage(fed, "responder", "reply", "count"), "1");
  EXPECT_EQ(stage(fed, "responder", "reply"), "0.002");
  EXPECT_EQ(stage(fed, "responder", "ready"), "0.005");
}

TEST(Metrics, WhatAProgramDoesBetweenTheWayAndItsUseIsNotTheSetUps) {
  Fed fed;
  fed.state(0ms, 1, "noted", "addr");
  fed.state(1ms, 1, "addr", "route");
  fed.state(3ms, 1, "route", "resolved");
  fed.state(1000ms, 1, "resolved", "queued");
  fed.state(1001ms, 1, "queued", "connecting");
  kernel(fed, 1001ms, 1, true, "REQ");
  kernel(fed, 1004ms, 1, false, "REP");
  fed.at(1004ms, 1, trace::Established{});
  EXPECT_EQ(fed[R"(parley_connections_started_total{role="initiator"})"], "1");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="initiator",stage="route"})"], "0.002");
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_sum{role="initiator",stage="request"})"], "0");
  EXPECT_EQ(fed[R"(parley_setup_seconds_sum{role="initiator"})"], "0.007");
}

TEST(Metrics, ARejOfAProgramIsCountedOnce) {
  Fed fed;
  kernel(fed, 0ms, 1, false, "REJ", "consumer_reject");
  fed.at(0ms, 1, trace::Rejected{});
  kernel(fed, 0ms, 2, true, "REJ", "consumer_reject");
  kernel(fed, 0ms, 3, false, "REJ", "stale_connection");
  EXPECT_EQ(fed[R"(parley_rejects_total{reason="rejected",direction="received"})"], "1");
  EXPECT_EQ(fed[R"(parley_rejects_total{reason="stale_connection",direction="received"})"], "1");
  EXPECT_EQ(fed[R"(parley_rejects_total{reason="consumer_reject",direction="received"})"], "none");
  EXPECT_EQ(fed[R"(parley_rejects_total{reason="other",direction="received"})"], "none");
  EXPECT_EQ(fed[R"(parley_messages_total{type="ib_rej",direction="received"})"], "2");
  EXPECT_EQ(fed[R"(parley_messages_total{type="ib_rej",direction="sent"})"], "1");
}

TEST(Metrics, AMessageWithoutAReasonIsNoRejection) {
  Fed fed;
  kernel(fed, 0ms, 1, true, "REQ");
  kernel(fed, 1ms, 1, false, "REP");
  EXPECT_EQ(fed[R"(parley_rejects_total{reason="other",direction="received"})"], "none");
  EXPECT_EQ(fed[R"(parley_rejects_total{reason="other",direction="sent"})"], "none");
}

TEST(Metrics, AReplyThatTheWrongSideSendsEndsNoStage) {
  Fed fed;
  fed.state(0ms, 1, "noted", "addr");
  fed.state(1ms, 1, "queued", "connecting");
  kernel(fed, 2ms, 1, true, "REQ");
  kernel(fed, 3ms, 1, true, "REP");
  fed.at(5ms, 1, trace::Established{});
  EXPECT_EQ(stage(fed, "initiator", "reply", "count"), "0");
}

TEST(Metrics, CountsConnectionsThatAreOpenNow) {
  Fed fed;
  const cm::Failure why{.code = make_error_code(Errc::peer_reset)};
  for (const std::uint64_t connection : {1U, 2U, 3U}) fed.set_up(connection);
  EXPECT_EQ(fed[R"(parley_connections{role="initiator"})"], "3");
  fed.at(1s, 1, trace::Disconnected{});
  fed.state(1s, 1, "closing", "over");
  EXPECT_EQ(fed[R"(parley_connections{role="initiator"})"], "2");
  fed.at(1s, 2, trace::Lost{why});
  fed.state(1s, 2, "open", "over");
  fed.state(1s, 3, "open", "gone");  // destroyed by the program
  EXPECT_EQ(fed[R"(parley_connections{role="initiator"})"], "0");
  EXPECT_EQ(fed[R"(parley_connections_established_total{role="initiator"})"], "3");
  EXPECT_EQ(fed["parley_disconnects_total"], "1");
  EXPECT_EQ(fed[R"(parley_connections_lost_total{reason="peer_reset"})"], "1");
}

TEST(Metrics, WhatAPeerSaysAgainBehindASetUpChangesNoTimes) {
  Fed fed;
  fed.set_up(1);
  const std::string before = fed[R"(parley_setup_stage_seconds_count{role="initiator",stage="reply"})"];
  fed.frame(1s, 1, false, "Reply");
  fed.at(1s, 1, trace::Established{});
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_count{role="initiator",stage="reply"})"], before);
  EXPECT_EQ(fed[R"(parley_setup_stage_seconds_count{role="initiator",stage="ready"})"], "1");
  EXPECT_EQ(fed[R"(parley_setup_seconds_count{role="initiator"})"], "1");
  EXPECT_EQ(fed[R"(parley_connections{role="initiator"})"], "1");
}

TEST(Metrics, CountsRejectionsOfEitherSide) {
  Fed fed;
  fed.at(0ms, 1, trace::Admitted{});
  fed.at(0ms, 1, trace::Decided{.accept = false});
  fed.at(0ms, 2, trace::Rejected{});
  fed.at(0ms, 3, trace::Rejected{});
  EXPECT_EQ(fed[R"(parley_rejects_total{reason="rejected",direction="sent"})"], "1");
  EXPECT_EQ(fed[R"(parley_rejects_total{reason="rejected",direction="received"})"], "2");
}

TEST(Metrics, CountsFailuresByStepAndReason) {
  Fed fed;
  const cm::Failure late{.step = mpa::step::wait_reply, .code = make_error_code(Errc::timed_out)};
  const cm::Failure foreign{.step = {cm::Stage::reply, "a \"new\" step\n", "", ""},
                            .code = std::make_error_code(std::errc::no_such_device)};
  fed.at(0ms, 1, trace::Failed{late});
  fed.at(0ms, 1, trace::Failed{late});
  fed.at(0ms, 1, trace::Failed{foreign});
  EXPECT_EQ(fed[R"(parley_setup_failures_total{step="wait_reply",reason="timed_out"})"], "2");
  EXPECT_EQ(fed[R"(parley_setup_failures_total{step="other",reason="other"})"], "1");
}

TEST(Metrics, EachReasonIsCalledAsItsErrcIs) {
  EXPECT_EQ(reason_of(make_error_code(Errc::invalid_argument)), "invalid_argument");
  EXPECT_EQ(reason_of(make_error_code(Errc::io)), "io");
  EXPECT_EQ(reason_of(std::error_code()), "other");
  EXPECT_EQ(reason_of({1000, error_category()}), "other");
  EXPECT_EQ(reason_of({-1, error_category()}), "other");
}

TEST(Metrics, EveryStepAndOpcodeHasAWord) {
  namespace step = mpa::step;
  for (const cm::Step& s : {step::tcp_connect, step::send_request, step::wait_request, step::ulp_decision,
                            step::wait_reply, step::send_rtr, step::wait_rtr, step::wait_first_fpdu, cm::step::data,
                            cm::step::resolve, ib::step::resolve_addr, ib::step::resolve_route, ib::step::send_request,
                            ib::step::ulp_decision, ib::step::wait_reply, ib::step::wait_ready})
    EXPECT_LT(CountBy<step_words>::index(s.name), step_words.size()) << s.name;
#define PARLEY_X(name, value, tagged, qn, text) \
  EXPECT_EQ(CountBy<opcode_words>::label(CountBy<opcode_words>::index(to_string(wire::RdmapOpcode::name))), #name);
  PARLEY_RDMAP_OPCODES(PARLEY_X)
#undef PARLEY_X
}

TEST(Metrics, AMessageThatComesTwiceInAnAttemptIsADuplicate) {
  Fed fed;
  fed.state(0ms, 1, "noted", "opening");
  fed.frame(0ms, 1, true, "Request");
  fed.frame(0ms, 1, true, "Request");  // sent twice is not received twice
  fed.frame(0ms, 1, false, "Reply");
  EXPECT_EQ(fed[R"(parley_duplicates_total{type="mpa_reply"})"], "0");
  fed.frame(0ms, 1, false, "Reply");
  EXPECT_EQ(fed[R"(parley_duplicates_total{type="mpa_reply"})"], "1");
  EXPECT_EQ(fed[R"(parley_duplicates_total{type="mpa_request"})"], "0");
  EXPECT_EQ(fed[R"(parley_messages_total{type="mpa_request",direction="sent"})"], "2");
  EXPECT_EQ(fed[R"(parley_messages_total{type="mpa_reply",direction="received"})"], "2");
  fed.at(1ms, 1, trace::Retrying{.next = {}, .wait = {}, .why = {}});
  fed.frame(2ms, 1, false, "Reply");  // of the next attempt
  EXPECT_EQ(fed[R"(parley_duplicates_total{type="mpa_reply"})"], "1");
}

TEST(Metrics, CountsRtrsTerminatesFpdusAndTimers) {
  Fed fed;
  fed.at(0ms, 1, trace::Rtr{.sent = true, .form = "read"});
  fed.at(0ms, 1, trace::Terminate{.sent = false});
  fed.at(0ms, 1, trace::Fpdu{.sent = true, .opcode = "RDMA Write", .octets = 4000});
  fed.at(0ms, 1, trace::Fpdu{.sent = true, .opcode = "RDMA Write", .octets = 96});
  fed.at(0ms, 1, trace::Fpdu{.sent = false, .opcode = "unassigned opcode", .octets = 1});
  fed.at(0ms, 1, trace::TimerExpired{"back_off"});
  EXPECT_EQ(fed[R"(parley_messages_total{type="rtr_read",direction="sent"})"], "1");
  EXPECT_EQ(fed[R"(parley_messages_total{type="terminate",direction="received"})"], "1");
  EXPECT_EQ(fed[R"(parley_fpdus_total{opcode="rdma_write",direction="sent"})"], "2");
  EXPECT_EQ(fed[R"(parley_fpdu_payload_bytes_total{opcode="rdma_write",direction="sent"})"], "4096");
  EXPECT_EQ(fed[R"(parley_fpdus_total{opcode="other",direction="received"})"], "1");
  EXPECT_EQ(fed[R"(parley_timer_expirations_total{timer="back_off"})"], "1");
}

TEST(Metrics, CountsPeersThatWereTurnedAway) {
  Fed fed;
  fed.at(0ms, 0, trace::Refused{.limit = "pending_max"});
  fed.at(0ms, 1, trace::Admitted{});
  fed.at(0ms, 1, trace::Evicted{.limit = "streams_max", .waited = 1s});
  EXPECT_EQ(fed[R"(parley_turned_away_total{how="refused",limit="pending_max"})"], "1");
  EXPECT_EQ(fed[R"(parley_turned_away_total{how="evicted",limit="streams_max"})"], "1");
  EXPECT_EQ(fed[R"(parley_turned_away_total{how="evicted",limit="pending_max"})"], "0");
  fed.at(1ms, 1, trace::Established{});  // it is forgotten
  EXPECT_EQ(fed[R"(parley_connections_established_total{role="responder"})"], "0");
}

TEST(Metrics, WordsThatNobodyKnowsMakeNoFurtherSeries) {
  Fed fed;
  for (unsigned i = 0; i < 1000; ++i) {
    const std::string odd = "odd\"" + std::to_string(i) + "\n";
    fed.at(0ms, i, trace::MpaFrame{.kind = odd});
    fed.at(0ms, i, trace::Rtr{.form = odd});
    fed.at(0ms, i, trace::TimerExpired{odd});
    fed.at(0ms, i, trace::Refused{odd});
    fed.at(0ms, i, trace::Fpdu{.opcode = odd});
  }
  const std::string text = fed.metrics.text();
  EXPECT_EQ(text.find("odd"), std::string::npos);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 400);
  EXPECT_EQ(fed[R"(parley_messages_total{type="other",direction="received"})"], "2000");
}

TEST(Metrics, ThereIsARoomForConnectionsAndNoMore) {
  Fed fed;
  for (std::uint64_t i = 1; i <= Metrics::followed_max + 1; ++i) fed.state(0ms, i, "noted", "opening");
  fed.at(1ms, Metrics::followed_max, trace::Established{});
  fed.at(1ms, Metrics::followed_max + 1, trace::Established{});
  EXPECT_EQ(fed[R"(parley_connections_established_total{role="initiator"})"], "1");
  EXPECT_EQ(fed[R"(parley_connections_started_total{role="initiator"})"], std::to_string(Metrics::followed_max + 1));
  fed.state(2ms, 1, "opening", "over");
  fed.set_up(7'000'000);
  EXPECT_EQ(fed[R"(parley_connections_established_total{role="initiator"})"], "2");
}

TEST(Metrics, PacketsOfRoceAreAskedForAtEachText) {
  Fed m;
  EXPECT_EQ(m.metrics.text().find("parley_roce"), std::string::npos);  // nobody counts any
  PacketCounts counts{.sent = 3,
                      .received = 5,
                      .unsent = 1,
                      .dropped = {{"bad_icrc", 0}, {"qpn", 2}},
                      .messages = {{"ib_req", 4, 6, 2}},
                      .rejects = {{"no_resources", 0, 2}, {"consumer_reject", 3, 3}, {"retry_after", 1, 0}}};
  m.metrics.count_packets([&] { return counts; });
  EXPECT_EQ(m["parley_roce_packets_total{direction=\"sent\"}"], "3");
  EXPECT_EQ(m["parley_roce_packets_total{direction=\"received\"}"], "5");
  EXPECT_EQ(m["parley_roce_packets_unsent_total"], "1");
  EXPECT_EQ(m["parley_roce_packets_dropped_total{reason=\"bad_icrc\"}"], "0");
  EXPECT_EQ(m["parley_roce_packets_dropped_total{reason=\"qpn\"}"], "2");
  EXPECT_EQ(m["parley_messages_total{type=\"ib_req\",direction=\"received\"}"], "4");
  EXPECT_EQ(m["parley_messages_total{type=\"ib_req\",direction=\"sent\"}"], "6");
  EXPECT_EQ(m["parley_roce_cm_retransmissions_total{type=\"ib_req\"}"], "2");
  EXPECT_EQ(m[R"(parley_rejects_total{reason="no_resources",direction="sent"})"], "2");
  EXPECT_EQ(m[R"(parley_rejects_total{reason="retry_after",direction="received"})"], "1");
  EXPECT_EQ(m[R"(parley_rejects_total{reason="retry_after",direction="sent"})"], "none") << "what has not happened";
  EXPECT_EQ(m[R"(parley_rejects_total{reason="consumer_reject",direction="sent"})"], "none")
      << "a program's is counted as it decides";
  counts.dropped[0].second = 7;
  EXPECT_EQ(m["parley_roce_packets_dropped_total{reason=\"bad_icrc\"}"], "7");
}

TEST(Metrics, ANegotiationsPacketsHaveNoMessagesOfAConnectionManager) {
  Fed m{.metrics = Metrics("1.2.3", Metrics::CommandKind::negotiations)};
  EXPECT_EQ(m.metrics.text().find("parley_roce"), std::string::npos);
  m.metrics.count_packets([] { return PacketCounts{.sent = 3, .received = 5, .dropped = {{"qpn", 2}}}; });
  EXPECT_EQ(m["parley_roce_packets_total{direction=\"sent\"}"], "3");
  EXPECT_EQ(m["parley_roce_packets_dropped_total{reason=\"qpn\"}"], "2");
  EXPECT_EQ(m["parley_negotiations_started_total{role=\"initiator\"}"], "0");
  EXPECT_EQ(m.metrics.text().find("retransmissions"), std::string::npos);
  EXPECT_EQ(m.metrics.text().find("parley_messages_total"), std::string::npos);
}

TEST(Metrics, EachFamilyIsAnnouncedOnceAboveItsSamples) {
  Fed fed;
  fed.set_up(1);
  std::set<std::string> announced;
  std::string family;
  std::istringstream lines(fed.metrics.text());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(announced.insert(family).second) << line;
    } else if (line.starts_with("# TYPE ")) {
      EXPECT_TRUE(line.starts_with("# TYPE " + family + " ")) << line;
    } else {
      EXPECT_TRUE(line.starts_with(family)) << line << " stands below " << family;
    }
  }
  EXPECT_EQ(fed[R"(parley_build_info{version="1.2.3"})"], "1");
}

TEST(Exposition, LabelsMayHoldAnything) {
  Exposition out;
  out.family("x_total", Exposition::Type::counter, "a \\ and\na \"line\"");
  out.sample({{"who", "a\\b\"c\nd\xFF\xC3\xA9{},="}}, 18446744073709551615U);
  out.sample({}, 0);
  EXPECT_EQ(out.text(),
            "# HELP x_total a \\\\ and\\na \"line\"\n"
            "# TYPE x_total counter\n"
            "x_total{who=\"a\\\\b\\\"c\\nd\xEF\xBF\xBD\xC3\xA9{},=\"} 18446744073709551615\n"
            "x_total 0\n");
}

TEST(Exposition, SecondsAreExact) {
  Exposition out;
  out.family("x_seconds", Exposition::Type::gauge, "");
  out.sample({}, 1500ms);
  EXPECT_NE(out.text().find("x_seconds 1.5\n"), std::string::npos) << out.text();
  EXPECT_EQ(seconds_text(0ns), "0");
  EXPECT_EQ(seconds_text(1ns), "0.000000001");
  EXPECT_EQ(seconds_text(250us), "0.00025");
  EXPECT_EQ(seconds_text(100s), "100");
  EXPECT_EQ(seconds_text(2500ms), "2.5");
}

}  // namespace
}  // namespace parley::ops

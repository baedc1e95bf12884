// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Events of negotiations in, Prometheus' text out.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ops/metrics/metrics.hpp"
#include "parley/wire/neg.h"

namespace parley::ops {
namespace {

using namespace std::chrono_literals;

/// A collector of negotiations, and events at times of the test's choice.
struct NegFed {
  Metrics metrics{"1.2.3", Metrics::CommandKind::negotiations};
  template <class E>
  void at(Duration when, std::uint64_t session, const E& event) {
    const trace::Event any(std::in_place_type<E>, event);
    metrics.record({Instant{1000s + when}, session, {}, {}, any});
  }
  void stage(Duration when, std::uint64_t session, std::string_view from, std::string_view to) {
    at(when, session, trace::NegStage{from, to});
  }
  std::string operator[](std::string_view sample) const {
    const std::string text = "\n" + metrics.text(), wanted = "\n" + std::string(sample) + " ";
    const std::size_t found = text.find(wanted);
    if (found == std::string::npos) return "none";
    const std::size_t begin = found + wanted.size();
    return text.substr(begin, text.find('\n', begin) - begin);
  }
};

TEST(NegMetrics, TakesTheTimeOfEachStageOfADial) {
  NegFed fed;
  fed.at(0ms, 1, trace::NegStarted{.role = "initiator"});
  fed.stage(0ms, 1, "none", "opening");
  fed.at(1ms, 1, trace::NegMessage{.sent = true, .kind = "Hello"});
  fed.stage(1ms, 1, "none", "info");
  fed.stage(3ms, 1, "info", "ready");
  fed.stage(6ms, 1, "ready", "done");
  EXPECT_EQ(fed[R"(parley_negotiations{role="initiator"})"], "1");
  fed.stage(10ms, 1, "done", "over");
  fed.at(10ms, 1, trace::NegAgreed{});
  EXPECT_EQ(fed[R"(parley_negotiation_stage_seconds_sum{role="initiator",stage="transport"})"], "0.001");
  EXPECT_EQ(fed[R"(parley_negotiation_stage_seconds_sum{role="initiator",stage="info"})"], "0.002");
  EXPECT_EQ(fed[R"(parley_negotiation_stage_seconds_sum{role="initiator",stage="ready"})"], "0.003");
  EXPECT_EQ(fed[R"(parley_negotiation_stage_seconds_sum{role="initiator",stage="done"})"], "0.004");
  EXPECT_EQ(fed[R"(parley_negotiation_stage_seconds_count{role="initiator",stage="hello"})"], "none");
  EXPECT_EQ(fed[R"(parley_negotiation_seconds_sum{role="initiator"})"], "0.01");
  EXPECT_EQ(fed[R"(parley_negotiations_agreed_total{role="initiator"})"], "1");
  EXPECT_EQ(fed[R"(parley_negotiations{role="initiator"})"], "0");
  EXPECT_EQ(fed[R"(parley_negotiation_messages_total{type="hello",direction="sent"})"], "1");
}

TEST(NegMetrics, AResponderWaitsForTheHello) {
  NegFed fed;
  fed.at(0ms, 1, trace::NegStarted{.role = "responder"});
  fed.at(2ms, 1, trace::NegMessage{.sent = false, .kind = "Hello"});
  fed.stage(2ms, 1, "none", "info");
  fed.stage(5ms, 1, "info", "ready");
  EXPECT_EQ(fed[R"(parley_negotiation_stage_seconds_sum{role="responder",stage="hello"})"], "0.002");
  EXPECT_EQ(fed[R"(parley_negotiation_stage_seconds_sum{role="responder",stage="info"})"], "0.003");
  EXPECT_EQ(fed[R"(parley_negotiation_stage_seconds_count{role="responder",stage="transport"})"], "none");
  EXPECT_EQ(fed[R"(parley_negotiation_seconds_count{role="responder"})"], "0");
}

TEST(NegMetrics, CountsFailuresRefusalsAndRetries) {
  NegFed fed;
  const trace::NegWhy late{.problem = "connection_timeout", .stage = "info", .round = 1, .text = {}, .advice = {}};
  const trace::NegWhy told{
      .problem = "variant_not_available", .stage = "info", .round = 1, .by_peer = true, .text = {}, .advice = {}};
  fed.at(0ms, 1, trace::NegStarted{.role = "initiator"});
  fed.at(1ms, 1, trace::NegRetrying{.next = {}, .backup = false, .why = late});
  fed.at(1ms, 1, trace::NegRetrying{.next = {}, .backup = true, .why = late});
  fed.at(1ms, 1, trace::NegFailed{told});
  fed.at(1ms, 2, trace::NegRefused{.plugin = "acme", .variant = "ud", .problem = "variant_not_available"});
  EXPECT_EQ(fed[R"(parley_negotiation_retries_total{reason="connection_timeout",next="same"})"], "1");
  EXPECT_EQ(fed[R"(parley_negotiation_retries_total{reason="connection_timeout",next="backup"})"], "1");
  EXPECT_EQ(fed[R"(parley_negotiation_failures_total{stage="info",reason="variant_not_available",by="peer"})"], "1");
  EXPECT_EQ(fed[R"(parley_negotiation_refusals_total{reason="variant_not_available"})"], "1");
  EXPECT_EQ(fed[R"(parley_negotiations{role="initiator"})"], "0");
  EXPECT_EQ(fed[R"(parley_negotiations_agreed_total{role="initiator"})"], "0");
}

TEST(NegMetrics, EachSeriesIsWritten) {
  NegFed fed;
  const auto series = [&](const std::string& name, const std::string& labels) {
    return fed["parley_negotiation_" + name + "{" + labels + "}"];
  };
  std::uint64_t session = 0;
#define PARLEY_X(name, value, layer, text) #name,
  for (const std::string problem : {PARLEY_NEG_ERRORS(PARLEY_X)}) {
    fed.at(0ms, ++session, trace::NegRefused{.plugin = "acme", .variant = "ud", .problem = problem});
    EXPECT_EQ(series("refusals_total", "reason=\"" + problem + "\""), "1");
    for (const std::string stage : {"none", "info", "ready", "done"})
      for (const bool by_peer : {false, true}) {
        const trace::NegWhy why{
            .problem = problem, .stage = stage, .round = 1, .by_peer = by_peer, .text = {}, .advice = {}};
        const std::string labels = "stage=\"" + stage + "\",reason=\"" + problem + "\",by=\"";
        fed.at(0ms, ++session, trace::NegFailed{why});
        EXPECT_EQ(series("failures_total", labels + (by_peer ? "peer\"" : "self\"")), "1");
      }
    for (const bool backup : {false, true}) {
      const trace::NegWhy why{.problem = problem, .stage = "info", .round = 1, .text = {}, .advice = {}};
      fed.at(0ms, ++session, trace::NegRetrying{.next = {}, .backup = backup, .why = why});
      EXPECT_EQ(series("retries_total", "reason=\"" + problem + "\",next=\"" + (backup ? "backup\"" : "same\"")), "1");
    }
  }
#undef PARLEY_X
  const std::pair<std::string, std::string> kinds[] = {
      {"Hello", "hello"}, {"Welcome", "welcome"}, {"Turn", "turn"}, {"Abort", "abort"}, {"raw", "raw"}};
  for (const auto& [kind, label] : kinds)
    for (const bool sent : {false, true}) {
      const auto labels = "type=\"" + label + "\",direction=\"" + (sent ? "sent\"" : "received\"");
      EXPECT_EQ(series("messages_total", labels), "0");
      fed.at(0ms, ++session, trace::NegMessage{.sent = sent, .kind = kind});
      EXPECT_EQ(series("messages_total", labels), "1");
    }
}

TEST(NegMetrics, EveryProblemHasItsWordAndOtherWordsMakeNoSeries) {
#define PARLEY_X(name, value, layer, text) EXPECT_LT(CountBy<problem_words>::index(#name), problem_words.size());
  PARLEY_NEG_ERRORS(PARLEY_X)
#undef PARLEY_X
  NegFed fed;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::string odd = "odd" + std::to_string(i);
    const trace::NegWhy why{.problem = odd, .stage = odd, .text = {}, .advice = {}};
    fed.at(0ms, i, trace::NegFailed{why});
    fed.at(0ms, i, trace::NegRefused{.plugin = odd, .variant = odd, .problem = odd});
    fed.at(0ms, i, trace::NegMessage{.kind = odd});
    fed.at(0ms, i, trace::NegRetrying{.next = {}, .why = why});
  }
  const std::string text = fed.metrics.text();
  EXPECT_EQ(text.find("odd"), std::string::npos);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 300);
}

TEST(NegMetrics, ACommandOfConnectionsHasNoneOfThem) {
  const Metrics of_connections("1");
  EXPECT_EQ(of_connections.text().find("negotiation"), std::string::npos);
  EXPECT_EQ(NegFed().metrics.text().find("parley_setup"), std::string::npos);
  EXPECT_EQ(NegFed()[R"(parley_turned_away_total{how="evicted",limit="sessions_max"})"], "0");
}

}  // namespace
}  // namespace parley::ops

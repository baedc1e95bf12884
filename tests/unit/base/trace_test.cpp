// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Trace events as people and programs read them.
#include "base/trace.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "parley/mpa.hpp"

namespace parley {
namespace {

using namespace std::chrono_literals;

std::string real(double value) { return std::to_string(static_cast<std::int64_t>(value)); }

const trace::Event request = trace::MpaFrame{.sent = true,
                                             .kind = "Request",
                                             .flags = "C,S",
                                             .revision = 2,
                                             .enhanced = true,
                                             .ird = 4,
                                             .ord = 16,
                                             .control = "A,D",
                                             .private_data = 6};

TEST(TraceText, HasTheFieldsInTheirOrder) {
  EXPECT_EQ(trace::to_text(request),
            "mpa.frame sent Request revision=2 flags=C,S control=A,D ird=4 ord=16 private_data_length=6");
  EXPECT_EQ(trace::to_text(trace::Event(trace::MpaFrame{.kind = "Reply", .revision = 1})),
            "mpa.frame received Reply revision=1 flags=- private_data_length=0");
}

TEST(TraceText, QuotesWhatIsMoreThanOneWord) {
  const cm::Failure why{
      .step = mpa::step::wait_reply, .code = make_error_code(Errc::timed_out), .received = "nothing for \"5\" s"};
  const std::string text = trace::to_text(trace::Event(trace::Failed{why}));
  EXPECT_EQ(text.find("cm.failed step=wait_reply cause=\""), 0U) << text;
  EXPECT_NE(text.find(R"(received="nothing for \"5\" s")"), std::string::npos) << text;
}

TEST(TraceText, EscapesQuotationMarksAndBackslashes) {
  const auto received = [](std::string text) {
    const cm::Failure why{
        .step = mpa::step::wait_reply, .code = make_error_code(Errc::timed_out), .received = std::move(text)};
    const std::string all = trace::to_text(trace::Event(trace::Failed{why}));
    return all.substr(all.find("received=") + 9);
  };
  EXPECT_EQ(received("word"), "word");
  EXPECT_EQ(received(R"(a\b)"), R"("a\\b")");  // one word, and ambiguous if it were not quoted
  EXPECT_EQ(received(R"(ends in \)"), R"("ends in \\")");
  EXPECT_EQ(received(R"(a"b)"), R"("a\"b")");
  EXPECT_EQ(received("a=b"), R"("a=b")");
  EXPECT_EQ(received("a\nb"), "\"a\nb\"");
}

TEST(TraceText, SaysWhenAndOfWhichConnection) {
  const trace::Record record{Instant{2s + 42us}, 3, {}, Address::v4(192, 0, 2, 1, 7471), request};
  EXPECT_EQ(trace::to_text(record, Instant{1s}).find("1.000042 debug #3 192.0.2.1:7471 mpa.frame sent"), 0U);
  const trace::Event listening = trace::Listening{Address::v4(192, 0, 2, 2, 7471)};
  EXPECT_EQ(trace::to_text({Instant{1s}, 0, {}, {}, listening}, Instant{1s}),
            "0.000000 info  cm.listening local=192.0.2.2:7471");
}

TEST(TraceJson, HasTimesInMicroseconds) {
  const trace::Event retrying(std::in_place_type<trace::TimerArmed>, trace::TimerArmed{.timer = "linger", .wait = 5s});
  const trace::Record record{Instant{1s + 42us}, 1, {}, Address::v4(192, 0, 2, 1, 7471), retrying};
  EXPECT_EQ(
      trace::to_json(record, Instant{1s}).dump(real),
      R"({"event":"trace","name":"timer.armed","level":"trace","at_us":42,"connection":1,"peer":"192.0.2.1:7471",)"
      R"("fields":{"timer":"linger","in_us":5000000}})");
}

TEST(TraceEvents, OfASinkComeUpToItsLevel) {
  struct Count final : trace::Sink {
    void record(const trace::Record& record) override { names.emplace_back(trace::name_of(record.event)); }
    std::vector<std::string> names;
  } sink;
  const Instant now{};
  const trace::Scope scope{.sink = sink, .now = now};
  for (const trace::Level level : {trace::Level::warn, trace::Level::debug, trace::Level::trace}) {
    sink.up_to = level;
    trace::record(&scope, trace::Lost{{}});
    trace::record(&scope, trace::Rtr{.sent = true, .form = "read"});
    trace::record(&scope, trace::Fpdu{});
  }
  trace::record(nullptr, trace::Fpdu{});
  EXPECT_EQ(sink.names, (std::vector<std::string>{"cm.lost", "cm.lost", "mpa.rtr", "cm.lost", "mpa.rtr", "qp.fpdu"}));
}

std::string read_file(const std::string& path) {
  std::stringstream out;
  out << std::ifstream(PARLEY_SOURCE_DIR "/" + path).rdbuf();
  return out.str();
}

template <class E>
void expect_described(const std::string& page, const std::string& schema, std::set<std::string>& names) {
  const std::string name(E::name);
  EXPECT_TRUE(names.insert(name).second) << name;
  EXPECT_NE(page.find("| `" + name + "` | `" + std::string(trace::to_string(E::level)) + "` |"), std::string::npos)
      << name;
  EXPECT_NE(schema.find('"' + name + '"'), std::string::npos) << name;
}

template <std::size_t... I>
void expect_all_described(std::index_sequence<I...>) {
  const std::string page = read_file("docs/trace.md"), schema = read_file("docs/schema/common.json");
  std::set<std::string> names;
  (expect_described<std::variant_alternative_t<I, trace::Event>>(page, schema, names), ...);
}

TEST(TraceEvents, AreDescribedWithTheirLevel) {
  expect_all_described(std::make_index_sequence<std::variant_size_v<trace::Event>>());
}

}  // namespace
}  // namespace parley

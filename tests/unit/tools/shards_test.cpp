// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Shards of a sweep: which runs each has, what schedulers and CI systems call them, and their files of results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "sim/sweep/report_record.hpp"
#include "sim/sweep/results_file.hpp"

namespace parley::sim::shards_test {
namespace {

using testing::HasSubstr;

Sweep sweep() {
  Sweep s;
  s.build = "parley 1.2.3 (commit 0123456789ab)";
  s.shown = "lossy_handshake";
  s.path = "/somewhere/lossy_handshake.toml";
  s.text = "name = \"a\"\n";
  s.seed = 100;
  s.last = 9;
  return s;
}

ReportRecord record(std::uint64_t seed) {
  ReportRecord r;
  r.cpu_us = 1234;
  r.report.scenario = "lossy_handshake";
  r.report.seed = seed;
  r.report.end = RunEnd::time_bound;
  r.report.bounds.events = 77;
  r.report.violations = {{"agreement", Instant(Duration(5)), "a > b", "both differ", "RFC 5044"}};
  r.report.pending = {"a > b: open"};
  r.report.groups = {{"b in 239.1.2.3", true, 3, 300}};
  r.report.xrc = {{"b:7471", 1, 2, 3, {{true, 4, 5}}}};
  r.report.established = 1;
  r.report.cnp_received = ~std::uint64_t{0};
  r.report.counters.events = 4711;
  r.report.finished_at = Instant(Duration(1'000'000'007));
  return r;
}

Bytes file_of(const Sweep& s, const Shard& shard, std::uint64_t runs, ShardEnd end = ShardEnd::complete) {
  ResultsWriter writer;
  Bytes out = writer.begin(s, shard);
  const auto append = [&out](const Bytes& piece) { out.insert(out.end(), piece.begin(), piece.end()); };
  for (std::uint64_t i = 0; i < runs; ++i) append(writer.add(encode_record(record(s.seed_of(shard.run_at(i))))));
  append(writer.end(end));
  return out;
}

TEST(SimShards, EachRunIsInOneOfThem) {
  for (const std::uint64_t count : {1, 2, 3, 7, 12}) {
    std::map<std::uint64_t, int> runs;
    for (std::uint64_t number = 1; number <= count; ++number) {
      const Shard shard{number, count};
      if (const auto last = shard.last_position(9))
        for (std::uint64_t position = 0; position <= *last; ++position) ++runs[shard.run_at(position)];
    }
    EXPECT_EQ(runs.size(), 10u) << count;
    for (const auto& [run, times] : runs) EXPECT_TRUE(run <= 9 && times == 1) << run << " of " << count;
  }
  EXPECT_EQ((Shard{1, 1}.last_position(~0ULL)), ~0ULL);
  const Shard last{65'536, 65'536};
  EXPECT_EQ(last.run_at(*last.last_position(~0ULL)), ~0ULL);
}

TEST(SimShards, AreWrittenAsTheUserWritesThem) {
  EXPECT_EQ(parse_shard("2/4").value(), (Shard{2, 4}));
  EXPECT_EQ(to_text(Shard{2, 4}), "2/4");
  for (const char* bad :
       {"", "/", "1", "0/2", "3/2", "1/0", "1/65537", "-1/2", "1/2/3", "a/b", "1/18446744073709551616"})
    EXPECT_FALSE(parse_shard(bad)) << bad;
}

TEST(SimShards, AreReadFromTheVariablesOfSchedulers) {
  const auto detect = [](const std::map<std::string, std::string>& set) {
    return detect_shard([&set](const char* name) {
      const auto found = set.find(name);
      return found == set.end() ? nullptr : found->second.c_str();
    });
  };
  EXPECT_EQ(detect({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}})->shard, (Shard{1, 4}));
  EXPECT_EQ(detect({{"CI_NODE_INDEX", "4"}, {"CI_NODE_TOTAL", "4"}})->shard, (Shard{4, 4}));
  EXPECT_TRUE(detect({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}})->of_task);
  EXPECT_FALSE(detect({{"CI_NODE_INDEX", "4"}, {"CI_NODE_TOTAL", "4"}})->of_task);
  std::map<std::string, std::string> array{{"SLURM_PROCID", "0"},          {"SLURM_NTASKS", "1"},
                                           {"SLURM_ARRAY_TASK_ID", "14"},  {"SLURM_ARRAY_TASK_MIN", "10"},
                                           {"SLURM_ARRAY_TASK_MAX", "16"}, {"SLURM_ARRAY_TASK_STEP", "2"},
                                           {"SLURM_ARRAY_TASK_COUNT", "4"}};
  EXPECT_EQ(detect(array)->shard, (Shard{3, 4}));
  EXPECT_THAT(detect(array)->source, HasSubstr("SLURM_ARRAY_TASK_ID=14"));
  array["SLURM_ARRAY_TASK_COUNT"] = "3";  // --array=10,14,16
  EXPECT_THAT(detect(array).error(), HasSubstr("evenly spaced"));
  EXPECT_THAT(detect({}).error(), HasSubstr("CI_NODE_INDEX"));
  for (const auto& [index, total] : std::map<std::string, std::string>{
           {"0", "4"}, {"5", "4"}, {"1", ""}, {"", "4"}, {"x", "4"}, {"2", "0"}, {"3", "70000"}})
    EXPECT_THAT(detect({{"CI_NODE_INDEX", index}, {"CI_NODE_TOTAL", total}}).error(),
                HasSubstr("CI_NODE_INDEX=" + index));
}

TEST(SimShards, RecordsComeBackAsTheyWere) {
  const Bytes octets = encode_record(record(7));
  const auto back = decode_record(octets);
  ASSERT_TRUE(back);
  EXPECT_EQ(encode_record(*back), octets);
  EXPECT_EQ(back->report.violations.front().text, "both differ");
  EXPECT_EQ(back->report.finished_at, Instant(Duration(1'000'000'007)));
  EXPECT_EQ(back->report.xrc.front().processes.front().octets, 5u);
  EXPECT_EQ(back->report.cnp_received, ~std::uint64_t{0});
  for (std::size_t n = 0; n < octets.size(); ++n) EXPECT_FALSE(decode_record(ConstBytes(octets).first(n))) << n;
  Bytes longer = octets;
  longer.push_back(0);
  EXPECT_FALSE(decode_record(longer));
}

TEST(SimShards, FilesThatAreCutOrChangedAreRefused) {
  const Bytes file = file_of(sweep(), {2, 4}, 3);
  const auto results = parse_results(file);
  ASSERT_TRUE(results) << results.error();
  EXPECT_EQ(results->sweep, sweep());
  EXPECT_EQ(results->shard, (Shard{2, 4}));
  ASSERT_EQ(results->records.size(), 3u);
  EXPECT_EQ(decode_record(results->records[1])->report.seed, 105u);
  for (std::size_t n = 0; n < file.size(); ++n) EXPECT_FALSE(parse_results(ConstBytes(file).first(n))) << n;
  for (std::size_t at = 0; at < file.size(); ++at)
    for (const int bit : {0x01, 0x80}) {
      Bytes changed = file;
      changed[at] = static_cast<std::uint8_t>(changed[at] ^ bit);
      EXPECT_FALSE(parse_results(changed)) << at;
    }
}

TEST(SimShards, FilesWithWrongNumbersAreRefused) {
  const auto why = [](const Bytes& file) { return parse_results(file).error(); };
  EXPECT_THAT(why(file_of(sweep(), {2, 4}, 2)), HasSubstr("2 of 3"));
  EXPECT_THAT(why(file_of(sweep(), {2, 4}, 4)), HasSubstr("after 3 runs"));
  EXPECT_THAT(why(file_of(sweep(), {5, 4}, 0)), HasSubstr("head"));
  EXPECT_THAT(why(file_of(sweep(), {0, 4}, 0)), HasSubstr("head"));
  Sweep beyond = sweep();
  beyond.last = ~std::uint64_t{0};
  EXPECT_THAT(why(file_of(beyond, {1, 1}, 1)), HasSubstr("head")) << "seeds beyond 2^64";
  EXPECT_TRUE(parse_results(file_of(sweep(), {11, 12}, 0))) << "a shard without runs";
  EXPECT_TRUE(parse_results(file_of(sweep(), {2, 4}, 2, ShardEnd::interrupted)));
}

TEST(SimShards, FilesThatEndAsTheirOptionsDoNotAllowAreRefused) {
  Sweep s = sweep();
  EXPECT_THAT(parse_results(file_of(s, {2, 4}, 2, ShardEnd::time_budget)).error(), HasSubstr("time budget"));
  s.time_budget = std::chrono::seconds(1);
  EXPECT_TRUE(parse_results(file_of(s, {2, 4}, 2, ShardEnd::time_budget)));
  s.failures_max = 3;  // each record of file_of is a failure
  EXPECT_THAT(parse_results(file_of(s, {2, 4}, 2, ShardEnd::enough_failures)).error(), HasSubstr("after 2 failures"));
  s.failures_max = 2;
  EXPECT_TRUE(parse_results(file_of(s, {2, 4}, 2, ShardEnd::enough_failures)));
  s.failures_max = 0;
  EXPECT_FALSE(parse_results(file_of(s, {2, 4}, 2, ShardEnd::enough_failures)));
}

TEST(SimShards, FilesWithRecordsThatCannotBeOneAreRefused) {
  Sweep s = sweep();
  s.last = 999;
  ReportRecord least;
  least.report.bounds.time = least.report.bounds.converge = {};
  least.report.bounds.events = 0;
  ASSERT_EQ(encode_record(least).size(), report_record_min);
  for (const std::size_t size : {report_record_min - 1, report_record_min}) {
    ResultsWriter writer;
    Bytes file = writer.begin(s, {1, 1});
    for (const Bytes& piece : {writer.add(Bytes(size, 0)), writer.end(ShardEnd::interrupted)})
      file.insert(file.end(), piece.begin(), piece.end());
    EXPECT_EQ(parse_results(file).has_value(), size == report_record_min) << size;
  }
}

TEST(SimShards, TextsWithControlCharactersAreRefused) {
  for (const char* bad : {"a\n::error::b", "\x1b[2J", "\x7f", "\xc2\x9b"}) {
    Sweep s = sweep();
    s.shown = bad;
    EXPECT_FALSE(decode_sweep(encode_sweep(s))) << bad;
    ReportRecord r = record(1);
    r.report.violations.front().text = bad;
    const auto back = decode_record(encode_record(r));
    ASSERT_TRUE(back);
    EXPECT_NE(back->report.violations.front().text, bad) << "it is written in one line";
    r = record(1);
    r.report.scenario = "abcdefghij";
    Bytes octets = encode_record(r);
    const auto at = std::search(octets.begin(), octets.end(), r.report.scenario.begin(), r.report.scenario.end());
    std::copy_n(bad, std::min<std::size_t>(std::string_view(bad).size(), 10), at);
    EXPECT_FALSE(decode_record(octets)) << bad;
  }
  Sweep s = sweep();
  s.shown = "\xc3\xa9t\xc3\xa9.toml";
  EXPECT_TRUE(decode_sweep(encode_sweep(s))) << "letters beyond ASCII";
}

std::vector<NamedResults> named(const std::vector<std::pair<Shard, Sweep>>& shards) {
  std::vector<NamedResults> out;
  for (const auto& [shard, s] : shards) out.push_back({"file" + std::to_string(out.size()), {s, shard, {}, {}}});
  return out;
}

TEST(SimShards, BelongTogetherInAnyOrder) {
  Sweep elsewhere = sweep();
  elsewhere.path = "/another/lossy_handshake.toml";
  auto files = named({{{3, 3}, sweep()}, {{1, 3}, elsewhere}, {{2, 3}, sweep()}});
  EXPECT_EQ(match_shards(files), "");
  EXPECT_EQ(files.front().name, "file1");
}

TEST(SimShards, ThatDoNotBelongTogetherAreRefusedByName) {
  const auto trouble = [](const std::vector<std::pair<Shard, Sweep>>& shards) {
    auto files = named(shards);
    return match_shards(files);
  };
  EXPECT_THAT(trouble({{{1, 3}, sweep()}, {{3, 3}, sweep()}}), HasSubstr("missing: 2"));
  EXPECT_THAT(trouble({{{1, 1000}, sweep()}}), HasSubstr("2, 3, 4, 5, 6, 7, 8, 9 and 991 more"));
  EXPECT_THAT(trouble({{{1, 2}, sweep()}, {{2, 2}, sweep()}, {{1, 2}, sweep()}}),
              HasSubstr("shard 1/2 is given twice"));
  EXPECT_THAT(trouble({{{1, 2}, sweep()}, {{2, 3}, sweep()}}), HasSubstr("2/3"));
  const auto other = [&](auto change) {
    Sweep s = sweep();
    change(s);
    return trouble({{{1, 2}, sweep()}, {{2, 2}, s}});
  };
  EXPECT_THAT(other([](Sweep& s) { s.build = "parley 1.2.4"; }), HasSubstr("the version"));
  EXPECT_THAT(other([](Sweep& s) { s.shown = "incast_16"; }), HasSubstr("incast_16"));
  EXPECT_THAT(other([](Sweep& s) { s.text += "#"; }), HasSubstr("the file of the scenario"));
  EXPECT_THAT(other([](Sweep& s) { s.seed = 101; }), HasSubstr("the seeds"));
  EXPECT_THAT(other([](Sweep& s) { s.last = 8; }), HasSubstr("the seeds"));
  EXPECT_THAT(other([](Sweep& s) { s.swarm = true; }), HasSubstr("--swarm"));
  EXPECT_THAT(other([](Sweep& s) { s.settled = true; }), HasSubstr("--settled"));
  EXPECT_THAT(other([](Sweep& s) { s.failures_max = 1; }), HasSubstr("--failures 1"));
  EXPECT_THAT(other([](Sweep& s) { s.time_budget = std::chrono::seconds(3); }), HasSubstr("--time-budget"));
  EXPECT_THAT(other([](Sweep& s) { s.kind = Sweep::Kind::exhaust; }), HasSubstr("the command"));
}

}  // namespace
}  // namespace parley::sim::shards_test

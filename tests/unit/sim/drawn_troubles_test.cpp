// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Hosts that crash, come back, pause and are slow while drawn connections are made and frames are lost, doubled, delayed
// and spoilt: how each run ends, beside tests/states/sim_troubles.txt. Nobody promises that the work gets through;
// whatever a checker has to say of it is in the table as well.
#include <gtest/gtest.h>

#include "base/rng.hpp"
#include "reports_kit.hpp"
#include "sim/scenario/scenario.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::sim::test {
namespace {

/// A file with drawn keys; what cannot be together is left out of it by mended_trouble().
class DrawnTrouble {
 public:
  explicit DrawnTrouble(std::uint64_t seed) : rng_(seed) {}

  std::string toml() {
    out_ = fmt::format("name = \"trouble\"\nseed = {}\n[bounds]\ntime = \"20s\"\nconverge = \"15s\"\nevents = 20000\n",
                       1 + rng_.below(1000));
    hosts_ = rng_.between(2, 3);
    for (std::uint64_t i = 0; i < hosts_; ++i) host(i);
    const bool starred = hosts_ == 3 || one_in(3);
    if (starred) out_ += "[[switch]]\nname = \"s\"\n";
    for (std::uint64_t i = 0; i < (starred ? hosts_ : 1); ++i) link(i, starred);
    for (std::uint64_t i = 0; i < hosts_; ++i) listen(i);
    for (std::uint64_t i = rng_.between(1, 3); i > 0; --i) connect();
    for (std::uint64_t i = rng_.between(1, 4); i > 0; --i) fault();
    return std::move(out_);
  }

 private:
  bool one_in(std::uint64_t n) { return rng_.below(n) == 0; }
  void put(std::string_view key, std::uint64_t value) { out_ += fmt::format("{} = {}\n", key, value); }
  void put(std::string_view key, std::string_view value) { out_ += fmt::format("{} = \"{}\"\n", key, value); }
  void time(std::string_view key, std::uint64_t us) { out_ += fmt::format("{} = \"{}us\"\n", key, us); }
  void maybe(std::string_view key) {
    if (one_in(4)) out_ += fmt::format("{} = {}\n", key, one_in(2));
  }
  std::string_view one_of(std::initializer_list<std::string_view> words) {
    return words.begin()[rng_.below(words.size())];
  }
  /// Of each order of magnitude, from microseconds to seconds.
  std::uint64_t moment() {
    const std::uint64_t most[] = {50, 500, 5'000, 100'000, 3'000'000};
    return rng_.below(most[rng_.below(5)]);
  }
  std::string some_host() { return fmt::format("h{}", rng_.below(hosts_)); }

  void host(std::uint64_t i) {
    out_ += fmt::format("[[host]]\nname = \"h{}\"\n", i);
    if (one_in(3)) out_ += "tcp = { rto_min = \"10ms\" }\n";
    maybe("learn_announcements");
    maybe("ipv6");
    if (one_in(3)) put("ring", rng_.between(1, 6));
  }
  void link(std::uint64_t i, bool starred) {
    out_ += fmt::format("[[link]]\nname = \"l{}\"\nends = [\"h{}\", \"{}\"]\n", links_++, i, starred ? "s" : "h1");
    time("delay", rng_.between(1, 300));
    put("rate", one_of({"10Mbps", "100Mbps", "1Gbps", "10Gbps"}));
    if (one_in(4)) out_ += "queue = \"6000B\"\n";
  }
  void listen(std::uint64_t i) {
    out_ += fmt::format("[[listen]]\nhost = \"h{}\"\n", i);
    if (one_in(3)) time("accept_after", moment());
    if (one_in(4)) time("at", moment());
    if (one_in(6)) put("pending_max", rng_.between(1, 2));
    maybe("relisten");
    if (one_in(3)) put("private_data", "hex:0102");
    out_ += "[listen.mpa]\n";
    maybe("crc");
    maybe("markers");
    if (one_in(4)) put("request_timeout", "300ms");
    if (one_in(4)) put("rtr_timeout", "200ms");
  }
  void connect() {
    // One draw to a statement: the order in which a call's arguments are evaluated is the compiler's choice.
    const std::string from = some_host();
    const std::string to = some_host();
    out_ += fmt::format("[[connect]]\nfrom = \"{}\"\nto = \"{}\"\nexpect = \"settled\"\n", from, to);
    put("count", rng_.between(1, 4));
    time("interval", moment());
    time("at", moment());
    put("transfer", one_of({"send", "write", "read"}));
    put("messages", rng_.below(12));
    put("octets", one_of({"0B", "1B", "700B", "3000B", "9000B"}));
    maybe("both_ways");
    put("close", one_of({"initiator", "responder", "both", "nobody"}));
    if (one_in(3)) time("close_after", moment());
    if (one_in(2)) put("retries", rng_.between(1, 4));
    if (one_in(3)) time("retry_after", 1 + moment());
    if (one_in(4)) put("transport_timeout", "700ms");
    if (one_in(4)) put("timeout", "1500ms");
    out_ += "[connect.mpa]\n";
    put("rtr", one_of({"none", "send", "write", "read"}));
    maybe("markers");
    if (one_in(4)) put("reply_timeout", "400ms");
  }
  void fault() {
    out_ += "[[fault]]\n";
    if (one_in(2)) {
      const std::string who = some_host();
      const bool pauses = one_in(2);
      const std::uint64_t from = moment(), length = 1 + moment();
      host_action(pauses ? "pause" : "crash", who, from);
      if (one_in(5)) return;
      out_ += "[[fault]]\n";
      host_action(pauses ? "resume" : "restart", who, from + length);
      return;
    }
    const std::string_view action = one_of(
        {"drop", "drop", "duplicate", "delay", "corrupt", "corrupt_mpa", "truncate", "cut_stream", "reset", "crash"});
    put("action", action);
    put("link", fmt::format("l{}", rng_.below(links_)));
    if (action == "crash") put("host", some_host());
    put("match", action == "corrupt_mpa"
                     ? one_of({"mpa_request", "mpa_reply", "fpdu"})
                     : one_of({"any", "tcp_syn", "tcp_syn_ack", "tcp_ack", "tcp_fin", "tcp_data", "mpa_request",
                               "mpa_reply", "mpa_rtr", "fpdu", "terminate", "arp_request"}));
    if (one_in(2)) put("nth", rng_.between(1, 4));
    if (one_in(2)) put("times", rng_.between(1, 3));
    if (one_in(4)) put("chance", "1/3");
    if (action == "corrupt_mpa") put("field", one_of({"crc", "key", "flags", "revision", "length", "marker"}));
    if (action == "delay") {
      time("delay", moment());
      maybe("reorder");
    }
    if (action == "truncate" || action == "cut_stream") put("octets", rng_.between(14, 80));
    if (action == "duplicate") put("count", rng_.between(1, 3));
  }
  void host_action(std::string_view action, std::string_view host, std::uint64_t at) {
    put("action", action);
    put("host", host);
    time("at", at);
  }

  Rng rng_;
  std::string out_;
  std::uint64_t hosts_ = 0, links_ = 0;
};

/// The lines in `toml` that the checks refuse are left out, as are sections that begin with one.
std::optional<Scenario> mended_trouble(std::string toml) {
  for (int rounds = 0; rounds < 60; ++rounds) {
    auto read = parse_scenario(toml, "trouble.toml");
    if (read)
      for (ScenarioFault& fault : read->faults) fault.may_miss = true;  // drawn, whatever else was
    if (read) return *read;
    const int wrong = read.error().front().line;
    std::size_t begin = 0;
    for (int line = 1; line < wrong; ++line) begin = toml.find('\n', begin) + 1;
    if (wrong == 0 || toml[begin] == '#') break;
    // A comment keeps the number of each line.
    if (toml.compare(begin, 2, "[[") != 0) {
      toml[begin] = '#';
      continue;
    }
    std::size_t end = toml.find("\n[[", begin);
    end = end == toml.npos ? toml.size() : end;
    for (std::size_t at = begin; at < end; at = toml.find('\n', at) + 1) {
      toml[at] = '#';
      if (toml.find('\n', at) >= end) break;
    }
  }
  return std::nullopt;
}

std::optional<Recorded> trouble(std::uint64_t seed) {
  const auto s = mended_trouble(DrawnTrouble(seed).toml());
  if (!s) return std::nullopt;
  return record_run(*s, s->seed);
}

TEST(SimTroubles, DrawnOnesEndAsReviewed) {
  std::string out = "# Drawn troubles: the first seeds line by line, the others by what they come to.\n";
  Legend legend;
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    const auto run = trouble(seed);
    out += run ? run_line(*run, legend) : "nothing to run\n";
  }
  out += legend.text();
  Tally tally;
  for (std::uint64_t seed = 26; seed <= 185; ++seed)
    if (const auto run = trouble(seed)) add_run(tally, *run);
  expect_as_reviewed("sim_troubles.txt", out + tally.text());
}

}  // namespace
}  // namespace parley::sim::test

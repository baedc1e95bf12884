// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// MPA handshakes per second over loopback TCP, one thread, both ends. Every form of set-up is compared with a raw epoll
// program that sends the same octets, closed after connect and kept open; and with libfabric's connection managers.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "bench/harness.hpp"
#include "bench/libfabric_peer.hpp"
#include "bench/parley_peer.hpp"
#include "bench/raw_epoll.hpp"

namespace parley::bench {
namespace {

constexpr double goal_of_raw = 0.85;
constexpr double goal_flat = 0.90;
constexpr long open_files_besides = 40;  // standard streams, listener, epoll and the drivers' descriptors

Row against_raw(const std::string& what, const std::vector<std::vector<Sample>>& samples) {
  return {.what = what,
          .unit = "1/s",
          .figure = median_of(samples[0], Reading::per_second),
          .limit_name = "raw epoll",
          .limit = median_of(samples[1], Reading::per_second),
          .ratio = median_ratio(samples[0], samples[1], Reading::per_second),
          .cpu_ratio = median_ratio(samples[0], samples[1], Reading::per_cpu_second),
          .goal_kind = Row::Goal::ratio_at_least,
          .goal = goal_of_raw};
}

void closed(const Settings& settings, Report& report, const std::vector<HandshakeForm>& forms) {
  if (!settings.wants("closed")) return;
  report.section("Handshakes per second, closed after connect (64 at once)");
  for (const auto& form : forms) {
    report.add(against_raw(form.name,
                           alternate({{"Parley", [&] { return parley_connect_and_close(form, settings.seconds); }},
                                      {"raw", [&] { return raw_connect_and_close(form.octets, settings.seconds); }}},
                                     settings.rounds)));
  }
}

void kept_open(const Settings& settings, Report& report, const std::vector<HandshakeForm>& forms, long most) {
  if (!settings.wants("kept open")) return;
  report.section("Handshakes per second, all kept open");
  const long n = std::min<long>(settings.quick ? 100 : 1000, most);
  for (const auto& form : forms) {
    report.add(against_raw(fmt::format("{}, {} open", form.name, n),
                           alternate({{"Parley", [&] { return parley_keep_open(form, n); }},
                                      {"raw", [&] { return raw_keep_open(form.octets, n); }}},
                                     settings.rounds)));
  }
}

/// A small number of connections takes only a few milliseconds, so repeat it until the sample is long enough.
template <class F>
Sample repeated(long n, F&& run) {
  Sample sum;
  do {
    const Sample one = run(n);
    sum.count += one.count;
    sum.wall_s += one.wall_s;
    sum.cpu_s += one.cpu_s;
  } while (sum.count < 2000);
  return sum;
}

void flat(const Settings& settings, Report& report, const HandshakeForm& form, long most) {
  if (!settings.wants("flat")) return;
  report.section(fmt::format("Flat in the number of open connections ({})", form.name));
  std::vector<long> counts{100, 1000, 3000, 10000};
  if (settings.quick) counts = {100, 300};
  for (auto& n : counts) n = std::min(n, most);
  std::vector<Contender> contenders;
  for (const long n : counts) {
    const auto parley = [&form](long k) { return parley_keep_open(form, k); };
    const auto raw = [&form](long k) { return raw_keep_open(form.octets, k); };
    contenders.push_back({"Parley", [=] { return repeated(n, parley); }});
    contenders.push_back({"raw", [=] { return repeated(n, raw); }});
  }
  const auto samples = alternate(contenders, settings.rounds);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    report.add(against_raw(fmt::format("{} open", counts[i]), {samples[2 * i], samples[2 * i + 1]}));
  }
  const auto &few = samples[2], &many = samples[samples.size() - 2];
  const auto &raw_few = samples[3], &raw_many = samples[samples.size() - 1];
  report.add(
      {.what = fmt::format("{} open against {} open", counts.back(), counts[1]),
       .unit = "1/s",
       .figure = median_of(many, Reading::per_second),
       .limit_name = "Parley itself",
       .limit = median_of(few, Reading::per_second),
       .ratio = median_ratio(many, few, Reading::per_second),
       .cpu_ratio = median_ratio(many, few, Reading::per_cpu_second),
       .goal_kind = Row::Goal::ratio_at_least,
       .goal = goal_flat,
       .note = fmt::format("raw epoll: {:.2f} by CPU", median_ratio(raw_many, raw_few, Reading::per_cpu_second))});
  if (counts.back() == most) report.note(fmt::format("{} is as far as this machine's limit of open files goes", most));
}

void beside_libfabric(const Settings& settings, Report& report, const HandshakeForm& form, long most) {
  if (!settings.wants("libfabric")) return;
  // Two readings of "at 3,000 kept open": the rate of further connections while so many stay open, and the mean rate
  // until then, which flatters a program that slows down.
  const long n = std::min<long>(settings.quick ? 100 : 3000, most * 4 / 5), more = n / 4;
  report.section(fmt::format("Beside libfabric, {} kept open ({})", n, form.name));
  for (const char* const provider : {"tcp", "net"}) {
    const std::string missing = libfabric_missing(provider);
    if (!missing.empty()) {
      report.note(fmt::format("no column for libfabric {}: {}", provider, missing));
      continue;
    }
    for (const bool further : {true, false}) {
      const long k = further ? more : 0;
      const auto samples = alternate({{"Parley", [&] { return parley_keep_open(form, n, k); }},
                                      {provider, [&] { return libfabric_keep_open(provider, n, k, 30); }},
                                      {"raw", [&] { return raw_keep_open(form.octets, n, k); }}},
                                     settings.rounds);
      const double raw = median_ratio(samples[2], samples[1], Reading::per_second);
      // No goal, because the other program's speed is not a measure for Parley; its limit is raw epoll.
      report.add({.what = further ? fmt::format("beside {}, {} more while {} stay open", provider, more, n)
                                  : fmt::format("beside {}, mean of the first {}", provider, n),
                  .unit = "1/s",
                  .figure = median_of(samples[0], Reading::per_second),
                  .limit_name = fmt::format("libfabric {}", provider),
                  .limit = median_of(samples[1], Reading::per_second),
                  .ratio = median_ratio(samples[0], samples[1], Reading::per_second),
                  .note = fmt::format("raw epoll: {:.2f}", raw)});
    }
  }
}

int run(int argc, char** argv) {
  const auto settings = parse_settings(argc, argv,
                                       "handshake_bench: MPA handshakes per second beside raw epoll and libfabric\n"
                                       "groups: closed, kept open, flat, libfabric");
  if (!settings) return 2;
  pin_to_cpu(0);
  const long most = (static_cast<long>(raise_open_files()) - open_files_besides) / 2;
  Report report("handshake_bench", *settings);
  const auto forms = handshake_forms();
  for (const auto& form : forms) check_octets(form);
  closed(*settings, report, forms);
  kept_open(*settings, report, forms, most);
  flat(*settings, report, forms[1], most);
  beside_libfabric(*settings, report, forms[1], most);
  return report.finish();
}

}  // namespace
}  // namespace parley::bench

int main(int argc, char** argv) { return parley::bench::guarded("handshake_bench", parley::bench::run, argc, argv); }

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/sweep/results_file.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"
#include "sim/sweep/packing.hpp"
#include "sim/sweep/report_record.hpp"

namespace parley::sim {
namespace {

constexpr std::string_view magic = results_magic;
constexpr std::size_t sum_octets = 8;

ConstBytes octets_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

tl::unexpected<std::string> wrong(std::string text) { return tl::unexpected(std::move(text)); }

/// The records up to the end mark. False if the file ends before, or has more of them than the shard has runs.
bool read_records(Unpacker& in, std::uint64_t runs_max, std::vector<ConstBytes>& records) {
  while (in.ok() && in.left() > 0) {
    const ConstBytes record = in.octets(report_record_max);
    if (!in.ok()) return false;
    if (record.empty()) return true;
    if (records.size() == runs_max || record.size() < report_record_min) return false;
    records.push_back(record);
  }
  return false;
}

bool whole(ConstBytes file) {
  return file.size() >= magic.size() + sum_octets &&
         Reader(file.last(sum_octets)).be64() == fnv1a(file.first(file.size() - sum_octets));
}

/// What is wrong with the end of a shard of `runs` runs; empty if nothing is.
std::string trouble_of_end(const ShardResults& results, std::uint64_t runs) {
  const Sweep& sweep = results.sweep;
  switch (results.end) {
    case ShardEnd::complete:
      return results.records.size() == runs ? "" : fmt::format("{} of {} runs are there", results.records.size(), runs);
    case ShardEnd::time_budget:
      return sweep.time_budget != Duration{} ? "" : "it ended by a time budget, and the sweep has none";
    case ShardEnd::enough_failures: {
      const auto failures = std::ranges::count_if(results.records, [](ConstBytes octets) {
        const auto record = decode_record(octets);
        return record && !record->report.passed();
      });
      return sweep.failures_max != 0 && static_cast<std::uint64_t>(failures) >= sweep.failures_max
                 ? ""
                 : fmt::format("it ended by --failures {} after {}", sweep.failures_max,
                               counted(static_cast<std::uint64_t>(failures), "failure"));
    }
    case ShardEnd::interrupted: return "";
  }
  return "";
}

/// "1, 3"; the rest is counted.
std::string listed(const std::vector<std::uint64_t>& numbers) {
  constexpr std::size_t shown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(numbers.size(), shown); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", numbers[i]);
  return numbers.size() > shown ? fmt::format("{} and {} more", text, numbers.size() - shown) : text;
}

}  // namespace

Bytes ResultsWriter::summed(Bytes piece) {
  sum_ = fnv1a(piece, sum_);
  return piece;
}

Bytes ResultsWriter::begin(const Sweep& sweep, const Shard& shard) {
  Packer out;
  out.octets(encode_sweep(sweep));
  out.number(shard.number);
  out.number(shard.count);
  Bytes piece(magic.begin(), magic.end());
  const Bytes head = out.take();
  piece.insert(piece.end(), head.begin(), head.end());
  return summed(std::move(piece));
}

Bytes ResultsWriter::add(ConstBytes record) {
  Packer out;
  out.octets(record);
  return summed(out.take());
}

Bytes ResultsWriter::end(ShardEnd how) {
  Packer out;
  out.number(0);
  out.number(static_cast<std::uint64_t>(how));
  Bytes piece = summed(out.take());
  std::array<std::uint8_t, sum_octets> sum{};
  Writer(sum).be64(sum_);
  piece.insert(piece.end(), sum.begin(), sum.end());
  return piece;
}

tl::expected<ShardResults, std::string> parse_results(ConstBytes file) {
  if (file.size() < magic.size() || !std::ranges::equal(file.first(magic.size()), octets_of(magic)))
    return wrong("is not a file of results ('parley sim explore --results' writes them)");
  if (!whole(file)) return wrong("is cut off or damaged: its checksum is wrong");
  ShardResults results;
  Unpacker in(file.subspan(magic.size(), file.size() - magic.size() - sum_octets));
  const auto sweep = decode_sweep(in.octets(sweep_octets_max));
  results.shard.number = in.number(shards_max);
  results.shard.count = in.number(shards_max);
  if (!in.ok() || !sweep || results.shard.number == 0 || results.shard.number > results.shard.count)
    return wrong("is damaged: its head is wrong");
  results.sweep = *sweep;
  const auto last = results.shard.last_position(sweep->last);
  const std::uint64_t runs_max = !last ? 0 : *last == ~std::uint64_t{0} ? *last : *last + 1;
  if (!read_records(in, runs_max, results.records))
    return wrong(
        fmt::format("(shard {}) is damaged after {}", to_text(results.shard), counted(results.records.size(), "run")));
  results.end = static_cast<ShardEnd>(in.number(static_cast<std::uint64_t>(ShardEnd::interrupted)));
  if (!in.at_end()) return wrong(fmt::format("(shard {}) is damaged: its end is wrong", to_text(results.shard)));
  if (const std::string trouble = trouble_of_end(results, runs_max); !trouble.empty())
    return wrong(fmt::format("(shard {}) is damaged: {}", to_text(results.shard), trouble));
  return results;
}

std::string match_shards(std::vector<NamedResults>& files) {
  if (files.empty()) return "no files";
  const NamedResults& first = files.front();
  const std::uint64_t count = first.results.shard.count;
  for (const NamedResults& file : files) {
    if (file.results.shard.count != count)
      return fmt::format("'{}' is shard {} and '{}' is shard {}: they do not belong together", first.name,
                         to_text(first.results.shard), file.name, to_text(file.results.shard));
    if (const std::string what = difference(first.results.sweep, file.results.sweep); !what.empty())
      return fmt::format("'{}' and '{}' differ in {}", first.name, file.name, what);
  }
  std::ranges::stable_sort(files, {}, [](const NamedResults& file) { return file.results.shard.number; });
  const auto twice =
      std::ranges::adjacent_find(files, {}, [](const NamedResults& f) { return f.results.shard.number; });
  if (twice != files.end())
    return fmt::format("shard {} is given twice: '{}' and '{}'", to_text(twice->results.shard), twice->name,
                       std::next(twice)->name);
  std::vector<std::uint64_t> missing;
  for (std::uint64_t number = 1, at = 0; number <= count; ++number)
    if (at < files.size() && files[at].results.shard.number == number)
      ++at;
    else
      missing.push_back(number);
  return missing.empty() ? std::string()
                         : fmt::format("of {} {} missing: {}", counted(count, "shard"),
                                       missing.size() == 1 ? "one is" : "these are", listed(missing));
}

}  // namespace parley::sim

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/neg/variants/perftest.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/bytes_io.hpp"
#include "base/text.hpp"
#include "cm/neg/guarded.hpp"
#include "cm/neg/variants/hex_fields.hpp"

namespace parley::neg {
namespace {

constexpr std::size_t version_len = 16, mtu_len = 2, number_len = 4, report_len = 8;

/// How often keys are exchanged in addition to once for each queue pair.
struct PerftestRun {
  std::string_view test;
  std::size_t first;   // in info, of the first queue pair
  std::size_t before;  // in ready, before those of all queue pairs
  bool report;         // in done
};
constexpr PerftestRun perftest_runs[] = {
    {"write_bw", 0, 0, true},  {"read_bw", 0, 0, true},  {"write_lat", 1, 0, false},
    {"read_lat", 1, 0, false}, {"send_bw", 0, 1, false}, {"send_lat", 0, 1, false},
};

/// "6.29" as 6029; 0: not a version.
unsigned version_number(std::string_view text) {
  unsigned major = 0, minor = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, major);
  if (first.ec != std::errc{} || major > 1000 || first.ptr == end || *first.ptr != '.') return 0;
  if (std::from_chars(first.ptr + 1, end, minor).ec != std::errc{} || minor > 999) return 0;
  return 1000 * major + minor;
}
constexpr Duration connecting_pause = std::chrono::milliseconds(5);
constexpr unsigned oldest = 5033;  // since this version, numbers and path MTU have the present lengths

}  // namespace

std::vector<std::string> perftest_tests() {
  std::vector<std::string> out;
  for (const PerftestRun& run : perftest_runs) out.emplace_back(run.test);
  return out;
}

namespace {

// lid, out_reads, qpn, psn, rkey: 4 octets each; 4 of padding; vaddr: 8; gid: 16; srqn, gid_index: 4 each.
Bytes write_binary_keys(const QpAttributes& a) {
  Bytes out(PerftestFormat{.binary = true}.length());
  Writer w(out);
  for (const std::uint32_t number : {std::uint32_t{a.lid}, std::uint32_t{a.ord}, a.qpn, a.psn, a.rkey, 0U})
    w.be32(number);
  w.be64(a.vaddr);
  w.bytes(a.gid);
  w.be32(a.srqn);
  w.be32(0);
  return out;
}

Outcome<QpAttributes> read_binary_keys(ConstBytes in) {
  Reader r(in);
  QpAttributes out;
  out.lid = static_cast<std::uint16_t>(r.be32());
  out.ord = static_cast<std::uint8_t>(std::min<std::uint32_t>(r.be32(), 255));
  out.ird = out.ord;
  out.qpn = r.be32();
  out.psn = r.be32();
  out.rkey = r.be32();
  (void)r.be32();
  out.vaddr = r.be64();
  const ConstBytes gid = r.bytes(out.gid.size());
  if (r.ok()) std::copy(gid.begin(), gid.end(), out.gid.begin());
  out.srqn = r.be32();
  (void)r.be32();
  if (r.ok() && r.left() == 0) return out;
  return failed(Problem::invalid_peer_data,
                fmt::format("keys of {}; 56 are expected with -R", counted(in.size(), "octet")));
}

}  // namespace

Bytes write_perftest_keys(const QpAttributes& a, PerftestFormat format) {
  if (format.binary) return write_binary_keys(a);
  std::string text =
      fmt::format("{:04x}:{:04x}:{:06x}:{:06x}:{:08x}:{:016x}:", a.lid, a.ord, a.qpn, a.psn, a.rkey, a.vaddr);
  if (format.validation) text += fmt::format("{:016x}:", a.vaddr + a.length);
  if (format.gid)
    for (const std::uint8_t octet : a.gid) text += fmt::format("{:02x}:", octet);
  text += fmt::format("{:08x}", a.srqn);
  if (format.gid) text += ':';
  text += '\0';
  return {text.begin(), text.end()};
}

Outcome<QpAttributes> read_perftest_keys(ConstBytes in, PerftestFormat format) {
  if (format.binary) return read_binary_keys(in);
  const std::string text(in.begin(), in.end());
  HexFields fields(text);
  QpAttributes out;
  out.lid = static_cast<std::uint16_t>(fields.next(4));
  out.ord = static_cast<std::uint8_t>(std::min<std::uint64_t>(fields.next(4), 255));
  out.ird = out.ord;  // perftest has one number for both
  out.qpn = static_cast<std::uint32_t>(fields.next(6));
  out.psn = static_cast<std::uint32_t>(fields.next(6));
  out.rkey = static_cast<std::uint32_t>(fields.next(8));
  out.vaddr = fields.next(16);
  if (format.validation) out.length = fields.next(16) - out.vaddr;
  if (format.gid)
    for (std::uint8_t& octet : out.gid) octet = static_cast<std::uint8_t>(fields.next(2));
  out.srqn = static_cast<std::uint32_t>(fields.next(8, true));
  if (!fields.ok() || in.size() != format.length())
    return failed(Problem::invalid_peer_data,
                  fmt::format("'{}' are not keys of perftest", readable_text(in, format.length())),
                  "give both sides a GID (-x) or none, and --data_validation or not");
  return out;
}

std::vector<Lockstep::Step> PerftestVariant::steps(Stage stage) {
  const auto* run = std::find_if(std::begin(perftest_runs), std::end(perftest_runs),
                                 [this](const PerftestRun& r) { return r.test == options_.test; });
  std::vector<Step> out;
  if (stage == Stage::info) {
    out = info();
    if (connects())
      out.push_back(blank());
    else
      add_keys(out, run->first);
  } else if (stage == Stage::ready) {
    if (connects()) {
      out.push_back(blank());
      add_keys(out, run->first);
    }
    for (std::size_t i = 0; i < run->before; ++i) out.push_back(barrier(0));
    for (std::size_t i = 0; i < set_.size(); ++i) out.push_back(barrier(i));
    out.push_back(barrier(0));
  } else if (stage == Stage::done) {
    if (run->report) {
      out.push_back(barrier(0));
      for (Step& step : report()) out.push_back(std::move(step));
    }
    out.push_back(barrier(0));
  }
  return out;
}

void PerftestVariant::add_keys(std::vector<Step>& out, std::size_t first) {
  for (std::size_t i = 0; i < first; ++i) out.push_back(barrier(0));
  for (std::size_t i = 0; i < set_.size(); ++i) out.push_back(keys(i));
}

// Size, iterations, then as doubles: peak and average in MiB/s, and millions of messages a second. Without a test: zeros.
std::vector<Lockstep::Step> PerftestVariant::report() const {
  std::array<std::uint64_t, 5> numbers{};
  if (player_) {
    const Played played = player_->result();
    const double seconds = std::chrono::duration<double>(played.took).count();
    numbers[0] = player_->options().size;
    numbers[1] = player_->options().iterations;
    if (seconds > 0) {
      const double average = static_cast<double>(played.octets) / seconds / (1 << 20);
      numbers[2] = numbers[3] = std::bit_cast<std::uint64_t>(average);
      numbers[4] = std::bit_cast<std::uint64_t>(static_cast<double>(played.messages) / seconds / 1e6);
    }
  }
  std::vector<Step> out;
  for (const std::uint64_t number : numbers)
    out.push_back({.length = report_len,
                   .say =
                       [number] {
                         Bytes octets(report_len);
                         Writer(octets).be64(number);
                         return octets;
                       },
                   .take = [](ConstBytes) { return Outcome<void>(); }});
  return out;
}

// The peer connects or listens after it has received the barrier.
Outcome<std::optional<Work>> PerftestVariant::connect() {
  const auto connected = set_.connect();
  if (!connected) return tl::unexpected(connected.error());
  if (!*connected) return Work{.again = connecting_pause};
  if (player_)
    if (auto prepared = player_->prepare(set_); !prepared) return tl::unexpected(prepared.error());
  return std::nullopt;
}

Outcome<std::optional<Work>> PerftestVariant::work(Stage stage, Instant now) {
  if (connects() && stage == Stage::info) return connect();
  if (!player_ || stage != Stage::ready) return std::nullopt;
  auto left = player_->work(set_, now);
  if (left && !*left) set_.set_played(player_->result());
  return left;
}

std::vector<Lockstep::Step> PerftestVariant::info() {
  const auto take_version = [this](ConstBytes in) -> Outcome<void> {
    const std::string text(in.begin(), std::find(in.begin(), in.end(), 0));
    const unsigned version = version_number(text);
    if (version >= oldest) return {};
    if (version == 0)
      return failed(Problem::invalid_peer_data,
                    fmt::format("'{}' is not a version of perftest", readable_text(in, version_len)),
                    connects() ? "see whether the peer is a program of perftest, with -R"
                               : "see whether the peer is a program of perftest, without -R");
    return failed(Problem::invalid_peer_data, fmt::format("perftest {} has another exchange; 5.33 is the oldest", text),
                  "use a newer perftest");
  };
  const auto take_mtu = [this](ConstBytes in) -> Outcome<void> {
    if (in[0] < '1' || in[0] > '5' || in[1] != 0)
      return failed(Problem::invalid_peer_data, fmt::format("'{}' is not a path MTU", readable_text(in, mtu_len)));
    peer_mtu_ = 128U << (in[0] - '0');  // ibv_mtu
    return {};
  };
  std::vector<Step> out;
  out.push_back({.length = version_len,
                 .say =
                     [this] {
                       Bytes text(options_.version.begin(), options_.version.end());
                       text.resize(version_len);
                       text.back() = 0;
                       return text;
                     },
                 .take = take_version});
  out.push_back(number(options_.page));
  out.push_back(number(options_.cache_line));
  out.push_back({.length = mtu_len,
                 .say =
                     [this] {
                       const auto digit = '0' + std::countr_zero(set_.local(0).mtu) - 7;
                       return Bytes{static_cast<std::uint8_t>(digit), 0};
                     },
                 .take = take_mtu});
  return out;
}

Lockstep::Step PerftestVariant::number(std::uint32_t own) {
  return {.length = number_len,
          .say =
              [own] {
                Bytes out(number_len);
                Writer(out).be32(own);
                return out;
              },
          .take = [](ConstBytes) { return Outcome<void>(); }};
}

Lockstep::Step PerftestVariant::keys(std::size_t i) {
  Step step = barrier(i);
  step.take = [this, i](ConstBytes in) { return parse_keys(i, in); };
  return step;
}

Lockstep::Step PerftestVariant::blank() {
  Step step = barrier(0);
  step.say = [this] { return Bytes(format_.length()); };
  return step;
}

Lockstep::Step PerftestVariant::barrier(std::size_t i) {
  return {.length = format_.length(),
          .say = [this, i] { return write_perftest_keys(set_.local(i), format_); },
          .take = [this](ConstBytes in) -> Outcome<void> {
            if (auto read = read_perftest_keys(in, format_); !read) return tl::unexpected(read.error());
            return {};
          }};
}

Outcome<void> PerftestVariant::parse_keys(std::size_t i, ConstBytes in) {
  auto peer = read_perftest_keys(in, format_);
  if (!peer) return tl::unexpected(peer.error());
  peer->mtu = peer_mtu_;
  if (connects() && set_.peer_gid(i) != QpAttributes{}.gid) peer->gid = set_.peer_gid(i);
  peer->qkey = qkey_of_programs;
  if (auto taken = set_.set_peer(i, *peer); !taken) return taken;
  if (i + 1 < set_.size()) return {};
  if (auto moved = set_.to_rtr(); !moved) return moved;
  return set_.to_rts();
}

}  // namespace parley::neg

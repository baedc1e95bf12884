// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The plug-in "parley": the variants that Parley brings along.
#include <algorithm>

#include <fmt/format.h>

#include "cm/neg/guarded.hpp"
#include "cm/neg/variants/manual_driver.hpp"
#include "cm/neg/variants/perftest.hpp"
#include "cm/neg/variants/pingpong.hpp"
#include "cm/neg/variants/verbs.hpp"

namespace parley::neg {
namespace {

constexpr std::uint64_t qps_max = 256;
constexpr std::uint64_t play_size_max = 256 << 20;

Transport transport_named(std::string_view name) {
  for (const Transport t : {Transport::rc, Transport::uc, Transport::ud, Transport::xrc})
    if (to_string(t) == name) return t;
  return Transport::rc;
}

class BuiltinPlugin final : public Plugin {
 public:
  explicit BuiltinPlugin(QpDrivers drivers) : drivers_(std::move(drivers)) {}
  std::string id() const override { return "parley"; }
  std::string version() const override { return "1"; }
  std::vector<VariantInfo> variants() const override;
  Outcome<std::unique_ptr<Variant>> make(std::string_view variant, Role role, const Config& config) override;

 private:
  /// None: no test is played, or the variant is not that of a program.
  static std::optional<Player> player_for(std::string_view variant, Role role, Transport transport,
                                          const Config& config);
  QpDrivers drivers_;
};

Parameter transport_parameter(std::vector<std::string> choices) {
  return {.name = "transport",
          .kind = Parameter::Kind::choice,
          .help = "of the queue pair",
          .otherwise = "rc",
          .choices = std::move(choices)};
}

Parameter flag_parameter(std::string name, std::string help, std::string otherwise = "false") {
  return {.name = std::move(name),
          .kind = Parameter::Kind::flag,
          .help = std::move(help),
          .otherwise = std::move(otherwise)};
}

Parameter done_parameter() { return flag_parameter("done", "agree on the end, too (the stage done)"); }

/// Parameters of the variants of programs.
std::vector<Parameter> program_parameters() {
  using Kind = Parameter::Kind;
  return {transport_parameter({"rc", "uc", "ud"}),
          {.name = "qps",
           .kind = Kind::number,
           .help = "queue pairs of each side",
           .otherwise = "1",
           .least = 1,
           .most = qps_max},
          flag_parameter("play", "play the program's test, too, where the driver has queue pairs", "true"),
          {.name = "size",
           .kind = Kind::number,
           .help = "octets of a message, as the program's -s; 0: as it is without",
           .otherwise = "0",
           .most = play_size_max},
          {.name = "iterations",
           .kind = Kind::number,
           .help = "messages, as the program's -n; 0: as it is without",
           .otherwise = "0",
           .most = 0xFFFFFFFF}};
}

std::vector<Parameter> pingpong_parameters() {
  std::vector<Parameter> out = program_parameters();
  out.push_back(flag_parameter("srq", "as ibv_srq_pingpong, whose qps are 16 by default"));
  out.push_back(flag_parameter("check", "verify the received octets of one queue pair"));
  return out;
}

std::vector<Parameter> perftest_parameters() {
  std::vector<Parameter> out = program_parameters();
  out.push_back(done_parameter());
  out.push_back({.name = "test",
                 .kind = Parameter::Kind::choice,
                 .help = "the program, without ib_",
                 .otherwise = "write_bw",
                 .choices = perftest_tests()});
  out.push_back({.name = "version", .help = "of perftest, that this side claims", .otherwise = "6.29"});
  out.push_back(flag_parameter("validation", "keys as with --data_validation"));
  return out;
}

std::vector<VariantInfo> BuiltinPlugin::variants() const {
  const std::vector<Parameter> of_drivers = driver_parameters(drivers_);
  const auto all = [](std::vector<Parameter> own, const std::vector<Parameter>& drivers) {
    own.insert(own.end(), drivers.begin(), drivers.end());
    return own;
  };
  std::vector<VariantInfo> out;
  for (const Transport t : {Transport::rc, Transport::uc, Transport::ud, Transport::xrc})
    out.push_back({.id = fmt::format("verbs-{}", to_string(t)),
                   .summary = fmt::format("one {} queue pair of each side, in Parley's own format", to_string(t)),
                   .parameters = all({done_parameter()}, of_drivers)});
  out.push_back(
      {.id = "manual",
       .summary = "the same, with values that are typed in",
       .parameters = all({done_parameter(), transport_parameter({"rc", "uc", "ud", "xrc"})}, manual_parameters())});
  out.push_back({.id = "pingpong",
                 .summary = "the exchange of ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong and ibv_srq_pingpong",
                 .parameters = all(pingpong_parameters(), of_drivers),
                 .framing = Framing::raw});
  out.push_back({.id = "perftest",
                 .summary = "the exchange of ib_write_bw and its like, text over TCP; with -R by neg::CmNegotiation",
                 .parameters = all(perftest_parameters(), of_drivers),
                 .framing = Framing::raw});
  return out;
}

/// Refuses what no program does with that transport. Errors: configuration_error.
Outcome<void> check_program(std::string_view variant, Transport transport, const Config& config) {
  const std::string test = variant == "perftest" ? text_in(config, "test") : "pingpong";
  const bool writes = test.starts_with("write"), reads = test.starts_with("read");
  const bool reliable = transport == Transport::rc, datagrams = transport == Transport::ud;
  if ((writes && datagrams) || (reads && !reliable))
    return failed(Problem::configuration_error,
                  fmt::format("'test': {}; {} has no RDMA {}", test, to_string(transport), writes ? "Writes" : "Reads"),
                  writes ? "set transport=rc or uc" : "set transport=rc");
  const auto qkey = number_of(config, "qkey");
  if (datagrams && qkey != 0 && qkey != qkey_of_programs)
    return failed(Problem::configuration_error,
                  fmt::format("'qkey': {:#x}; the programs have {:#x} and do not say it", qkey, qkey_of_programs),
                  "leave it out");
  return {};
}

std::optional<Player> BuiltinPlugin::player_for(std::string_view variant, Role role, Transport transport,
                                                const Config& config) {
  const std::string test = variant == "perftest" ? text_in(config, "test") : "pingpong";
  if ((variant != "pingpong" && variant != "perftest") || !flag_of(config, "play") || !Player::knows(test))
    return std::nullopt;
  return Player({.test = test,
                 .role = role,
                 .transport = transport,
                 .size = static_cast<std::uint32_t>(number_of(config, "size")),
                 .iterations = number_of(config, "iterations"),
                 .check = flag_of(config, "check")});
}

Outcome<std::unique_ptr<Variant>> BuiltinPlugin::make(std::string_view variant, Role role, const Config& given) {
  Config config = given;
  const std::string prefix = "verbs-";
  const bool own = variant.starts_with(prefix);
  if (variant == "manual") config["driver"] = "manual";
  const Transport transport = transport_named(own ? variant.substr(prefix.size()) : text_in(config, "transport"));
  const auto qps = static_cast<std::uint32_t>(std::max<std::uint64_t>(number_of(config, "qps"), 1));
  if (variant == "pingpong" || variant == "perftest")
    if (auto sane = check_program(variant, transport, config); !sane) return tl::unexpected(sane.error());
  std::optional<Player> player;
  if (!means_manual(drivers_, config)) player = player_for(variant, role, transport, config);
  // The memory and the access that the test needs. The driver "manual" has no memory, so it has no player.
  if (player) {
    config["length"] = std::to_string(player->memory());
    config[std::string(access_parameter)] = player->peer_access();
  }
  auto set = QpSet::open(drivers_, transport, qps, config);
  if (!set) return tl::unexpected(set.error());
  const bool connects = set->driver(0).connects();
  if (connects && variant != "perftest")
    return failed(Problem::configuration_error, fmt::format("{} has no queue pairs that rdma_cm connects", variant),
                  "choose perftest");
  if (connects && (transport != Transport::rc || qps > 1))
    return failed(Problem::configuration_error, "over rdma_cm there is one queue pair, of RC",
                  "set transport=rc and qps=1");
  if (player && !connects && set->driver(0).path() == nullptr) player.reset();
  if (player && variant == "perftest" && qps > 1)
    return failed(Problem::configuration_error,
                  fmt::format("'qps': {}; the tests of perftest are played over one queue pair", qps),
                  "set qps=1, or play=false for the exchange alone");
  if (player && !connects)
    if (auto prepared = player->prepare(*set); !prepared) return tl::unexpected(prepared.error());
  const bool done = flag_of(config, "done");
  if (variant == "pingpong")
    return std::make_unique<PingpongVariant>(role, transport, std::move(*set), std::move(player),
                                             flag_of(config, "srq"));
  if (variant == "perftest") {
    const PerftestOptions options{.test = text_in(config, "test"),
                                  .version = text_in(config, "version"),
                                  .validation = flag_of(config, "validation"),
                                  .done_stage = done || player};
    return std::make_unique<PerftestVariant>(role, std::move(*set), options, std::move(player));
  }
  return std::make_unique<VerbsVariant>(role, transport, std::move(*set), done);
}

}  // namespace

std::unique_ptr<Plugin> make_builtin_plugin(QpDrivers drivers) {
  return std::make_unique<BuiltinPlugin>(std::move(drivers));
}

}  // namespace parley::neg

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
  QpDrivers drivers_;
};

std::vector<VariantInfo> BuiltinPlugin::variants() const {
  using Kind = Parameter::Kind;
  const Parameter done{
      .name = "done", .kind = Kind::flag, .help = "agree on the end, too (the stage done)", .otherwise = "false"};
  const auto transport = [](std::vector<std::string> choices) {
    return Parameter{.name = "transport",
                     .kind = Kind::choice,
                     .help = "of the queue pair",
                     .otherwise = "rc",
                     .choices = std::move(choices)};
  };
  const Parameter qps{.name = "qps",
                      .kind = Kind::number,
                      .help = "queue pairs of each side",
                      .otherwise = "1",
                      .least = 1,
                      .most = qps_max};
  const auto all = [](std::vector<Parameter> own, const std::vector<Parameter>& drivers) {
    own.insert(own.end(), drivers.begin(), drivers.end());
    return own;
  };
  const std::vector<Parameter> of_drivers = driver_parameters(drivers_);
  std::vector<VariantInfo> out;
  for (const Transport t : {Transport::rc, Transport::uc, Transport::ud, Transport::xrc})
    out.push_back({.id = fmt::format("verbs-{}", to_string(t)),
                   .summary = fmt::format("one {} queue pair of each side, in Parley's own format", to_string(t)),
                   .parameters = all({done}, of_drivers)});
  out.push_back({.id = "manual",
                 .summary = "the same, with values that are typed in",
                 .parameters = all({done, transport({"rc", "uc", "ud", "xrc"})}, manual_parameters())});
  out.push_back({.id = "pingpong",
                 .summary = "the exchange of ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong and ibv_srq_pingpong",
                 .parameters = all({transport({"rc", "uc", "ud"}), qps}, of_drivers),
                 .framing = Framing::raw});
  out.push_back(
      {.id = "perftest",
       .summary = "the text exchange of ib_write_bw and its like, without -R",
       .parameters = all(
           {done,
            transport({"rc", "uc", "ud"}),
            qps,
            {.name = "test",
             .kind = Kind::choice,
             .help = "the program, without ib_",
             .otherwise = "write_bw",
             .choices = perftest_tests()},
            {.name = "version", .help = "of perftest, that this side claims", .otherwise = "6.29"},
            {.name = "validation", .kind = Kind::flag, .help = "keys as with --data_validation", .otherwise = "false"}},
           of_drivers),
       .framing = Framing::raw});
  return out;
}

Outcome<std::unique_ptr<Variant>> BuiltinPlugin::make(std::string_view variant, Role role, const Config& given) {
  Config config = given;
  const std::string prefix = "verbs-";
  const bool own = variant.starts_with(prefix);
  if (variant == "manual") config["driver"] = "manual";
  const Transport transport = transport_named(own ? variant.substr(prefix.size()) : text_in(config, "transport"));
  const auto qps = static_cast<std::uint32_t>(std::max<std::uint64_t>(number_of(config, "qps"), 1));
  auto set = QpSet::open(drivers_, transport, qps, config);
  if (!set) return tl::unexpected(set.error());
  const bool done = flag_of(config, "done");
  if (variant == "pingpong") return std::make_unique<PingpongVariant>(role, transport, std::move(*set));
  if (variant == "perftest")
    return std::make_unique<PerftestVariant>(role, std::move(*set),
                                             PerftestOptions{.test = text_in(config, "test"),
                                                             .version = text_in(config, "version"),
                                                             .validation = flag_of(config, "validation"),
                                                             .done_stage = done});
  return std::make_unique<VerbsVariant>(role, transport, std::move(*set), done);
}

}  // namespace

std::unique_ptr<Plugin> make_builtin_plugin(QpDrivers drivers) {
  return std::make_unique<BuiltinPlugin>(std::move(drivers));
}

}  // namespace parley::neg

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/neg/variants/manual_driver.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "cm/neg/guarded.hpp"

namespace parley::neg {
namespace {

class ManualDriver final : public QpDriver {
 public:
  explicit ManualDriver(const QpAttributes& attributes) : attributes_(attributes) {}
  Outcome<QpAttributes> open() override { return attributes_; }
  Outcome<void> to_rtr(const QpPair&) override { return {}; }
  Outcome<void> to_rts(const QpPair&) override { return {}; }

 private:
  QpAttributes attributes_;
};

}  // namespace

std::vector<Parameter> manual_parameters() {
  using Kind = Parameter::Kind;
  constexpr std::uint64_t bits_24 = 0xFFFFFF, bits_32 = 0xFFFFFFFF;
  return {
      {.name = "qpn", .kind = Kind::number, .help = "queue pair number", .least = 1, .most = bits_24},
      {.name = "psn", .kind = Kind::number, .help = "first packet sequence number", .otherwise = "0", .most = bits_24},
      {.name = "gid", .help = "GID, as an IPv6 or IPv4 address"},
      {.name = "lid", .kind = Kind::number, .help = "LID", .otherwise = "0", .most = 0xFFFF},
      {.name = "mtu",
       .kind = Kind::choice,
       .help = "path MTU in octets",
       .otherwise = "1024",
       .choices = {"256", "512", "1024", "2048", "4096"}},
      {.name = "ird", .kind = Kind::number, .help = "RDMA Reads answered at once", .otherwise = "1", .most = 255},
      {.name = "ord", .kind = Kind::number, .help = "RDMA Reads begun at once", .otherwise = "1", .most = 255},
      {.name = "qkey", .kind = Kind::number, .help = "Q_Key, of UD", .otherwise = "0", .most = bits_32},
      {.name = "srqn", .kind = Kind::number, .help = "shared receive queue, of XRC", .otherwise = "0", .most = bits_24},
      {.name = "ini_qpn", .kind = Kind::number, .help = "sending end, of XRC", .otherwise = "0", .most = bits_24},
      {.name = "rkey", .kind = Kind::number, .help = "R_Key of memory", .otherwise = "0", .most = bits_32},
      {.name = "vaddr", .kind = Kind::number, .help = "virtual address of memory", .otherwise = "0"},
      {.name = "length", .kind = Kind::number, .help = "length of memory", .otherwise = "0"},
  };
}

std::uint64_t number_of(const Config& config, std::string_view name) {
  const auto at = config.find(name);
  if (at == config.end()) return 0;
  std::string_view text = at->second;
  const bool hex = text.starts_with("0x");
  if (hex) text.remove_prefix(2);
  std::uint64_t out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out, hex ? 16 : 10);
  return out;
}

bool flag_of(const Config& config, std::string_view name) { return text_in(config, name) == "true"; }

std::string text_in(const Config& config, std::string_view name) {
  const auto at = config.find(name);
  return at == config.end() ? std::string() : at->second;
}

Outcome<Gid> parse_gid(std::string_view text) {
  const auto address = Address::parse(text);
  if (!address || address->port != 0 || address->scope_id != 0)
    return failed(Problem::configuration_error, fmt::format("'gid': '{}' cannot be", text.substr(0, 60)),
                  "write an IPv6 or IPv4 address, without scope and port");
  return gid_of(*address);
}

Outcome<std::unique_ptr<QpDriver>> make_manual_driver(const Config& config, std::uint32_t index) {
  QpAttributes a;
  const auto number = [&](std::string_view name) { return number_of(config, name); };
  if (!config.contains("qpn"))
    return failed(Problem::configuration_error, "'qpn' is missing: the driver 'manual' makes no queue pair",
                  "give the number of yours");
  const std::uint64_t qpn = number("qpn") + index;
  if (qpn > 0xFFFFFF)
    return failed(Problem::configuration_error, "'qpn' and those that follow it have more than 24 bits");
  a.qpn = static_cast<std::uint32_t>(qpn);
  a.psn = static_cast<std::uint32_t>(number("psn"));
  a.lid = static_cast<std::uint16_t>(number("lid"));
  a.mtu = static_cast<std::uint32_t>(number("mtu"));
  a.ird = static_cast<std::uint8_t>(number("ird"));
  a.ord = static_cast<std::uint8_t>(number("ord"));
  a.qkey = static_cast<std::uint32_t>(number("qkey"));
  a.srqn = static_cast<std::uint32_t>(number("srqn"));
  a.ini_qpn = static_cast<std::uint32_t>(number("ini_qpn"));
  a.rkey = static_cast<std::uint32_t>(number("rkey"));
  a.vaddr = number("vaddr");
  a.length = number("length");
  if (const std::string gid = text_in(config, "gid"); !gid.empty()) {
    const auto parsed = parse_gid(gid);
    if (!parsed) return tl::unexpected(parsed.error());
    a.gid = *parsed;
  }
  return std::make_unique<ManualDriver>(a);
}

}  // namespace parley::neg

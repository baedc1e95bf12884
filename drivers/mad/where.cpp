// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/mad/where.hpp"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "drivers/mad/roce.hpp"
#include "drivers/mad/umad.hpp"
#include "drivers/secure_env.hpp"
#include "mad/words.hpp"
#include "parley/host.hpp"

namespace parley::mad_driver {

namespace {

bool is_set(const char* name) {
  const char* value = secure_env(name);
  return value != nullptr && *value != '\0';
}

/// "ibsim:sim/H00001" consists of a kind, a name and the part after the slash.
struct Parts {
  std::string_view kind, all, name;
  std::optional<std::string_view> rest;
};
Parts parts_of(std::string_view where) {
  Parts out;
  const std::size_t colon = where.find(':');
  out.kind = where.substr(0, colon);
  if (colon == std::string_view::npos) return out;
  out.all = where.substr(colon + 1);
  const std::size_t slash = out.all.find('/');
  out.name = out.all.substr(0, slash);
  if (slash != std::string_view::npos) out.rest = out.all.substr(slash + 1);
  return out;
}

OrText<Opened> open_ibsim(const Parts& parts) {
  IbsimOptions options = ibsim::environment_options();
  if (!parts.name.empty()) options.name = parts.name;
  if (parts.rest) options.node = *parts.rest;
  auto opened = Ibsim::open(options);
  if (!opened) return tl::unexpected(opened.error());
  return Opened{std::move(*opened), fmt::format("ibsim '{}'", options.name)};
}

OrText<Opened> open_device(const Parts& parts) {
  UmadOptions options;
  options.device = parts.name;
  if (parts.rest) options.port = mad::port_in(*parts.rest).value_or(0);
  auto opened = open_umad(options);
  if (!opened) return tl::unexpected(opened.error());
  return Opened{std::move(*opened), fmt::format("umad{}{}", parts.all.empty() ? "" : " ", parts.all)};
}

OrText<Opened> open_roce(const Parts& parts) {
  auto local = parley::Address::parse(parts.name);  // also accepts brackets; then names
  if (!local)
    if (const auto named = Host::resolve(std::string(parts.name), 0); named && !named->empty()) local = named->front();
  if (!local) return tl::unexpected(fmt::format("cannot resolve {}: no such host or address", mad::quoted(parts.name)));
  auto opened = RoceTransport::open({.local = *local, .queue_pair = parts.rest.has_value()});
  if (!opened) return tl::unexpected(fmt::format("roce:{}: {}", parts.name, opened.error()));
  const std::uint32_t number = (*opened)->qp_num();
  return Opened{std::move(*opened), fmt::format("RoCE at {}", parts.name), number};
}

std::optional<std::uint8_t> gid_index_in(std::string_view text) {
  std::uint8_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(index) : std::nullopt;
}

OrText<Opened> open_queue_pair(const Parts& parts) {
  VerbsOptions options;
  options.device = parts.name;
  if (parts.rest) options.gid_index = gid_index_in(*parts.rest);
  auto opened = open_verbs(options);
  if (!opened) return tl::unexpected(opened.error());
  const std::uint32_t number = (*opened)->qp_num();
  return Opened{std::move(*opened), fmt::format("verbs{}{}", parts.all.empty() ? "" : " ", parts.all), number};
}

}  // namespace

std::string check_where(std::string_view where) {
  if (where.empty()) return {};
  const Parts parts = parts_of(where);
  if (parts.kind != "ibsim" && parts.kind != "umad" && parts.kind != "roce" && parts.kind != "verbs")
    return fmt::format(
        "{} is not one of ibsim[:NAME[/NODE]], umad[:DEVICE[/PORT]], roce:ADDRESS[/qp], verbs[:DEVICE[/GID]]",
        mad::quoted(where));
  if (parts.kind == "roce" && parts.name.empty())
    return fmt::format("{} has no address: roce:ADDRESS[/qp]", mad::quoted(where));
  if (parts.kind == "roce" && parts.rest && *parts.rest != "qp")
    return fmt::format("{} is not 'qp': roce:ADDRESS[/qp]", mad::quoted(*parts.rest));
  if (parts.kind == "verbs" && parts.rest && !gid_index_in(*parts.rest))
    return fmt::format("{} is not a GID index: verbs:rxe0/1", mad::quoted(*parts.rest));
  if (parts.kind == "umad" && parts.rest && !mad::port_in(*parts.rest))
    return fmt::format("{} is not a device port: umad:mlx5_0/1", mad::quoted(*parts.rest));
  return {};
}

OrText<Opened> open_where(std::string_view where) {
  if (std::string wrong = check_where(where); !wrong.empty()) return tl::unexpected(std::move(wrong));
  const Parts parts = parts_of(where);
  if (parts.kind == "ibsim") return open_ibsim(parts);
  if (parts.kind == "umad") return open_device(parts);
  if (parts.kind == "roce") return open_roce(parts);
  if (parts.kind == "verbs") return open_queue_pair(parts);
  if (is_set("IBSIM_SOCKNAME") || is_set("SIM_HOST")) return open_ibsim({});
  if (!umad_ports().empty()) return open_device({});
  return tl::unexpected(std::string(
      "no transport: libibumad finds no InfiniBand device on this machine, and IBSIM_SOCKNAME and SIM_HOST are not "
      "set"));
}

}  // namespace parley::mad_driver

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/mad/where.hpp"

#include <cstdlib>

#include <fmt/format.h>

#include "drivers/mad/umad.hpp"
#include "mad/words.hpp"

namespace parley::mad_driver {

namespace {

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

/// "ibsim:sim/H00001" is a kind, a name and what stands behind the slash.
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

}  // namespace

std::string check_where(std::string_view where) {
  if (where.empty()) return {};
  const Parts parts = parts_of(where);
  if (parts.kind != "ibsim" && parts.kind != "umad")
    return fmt::format("{} is neither ibsim[:NAME[/NODE]] nor umad[:DEVICE[/PORT]]", mad::quoted(where));
  if (parts.kind == "umad" && parts.rest && !mad::port_in(*parts.rest))
    return fmt::format("{} is no port of a device: umad:mlx5_0/1", mad::quoted(*parts.rest));
  return {};
}

OrText<Opened> open_where(std::string_view where) {
  if (std::string wrong = check_where(where); !wrong.empty()) return tl::unexpected(std::move(wrong));
  const Parts parts = parts_of(where);
  if (parts.kind == "ibsim") return open_ibsim(parts);
  if (parts.kind == "umad") return open_device(parts);
  if (is_set("IBSIM_SOCKNAME") || is_set("SIM_HOST")) return open_ibsim({});
  if (!umad_ports().empty()) return open_device({});
  return tl::unexpected(
      std::string("nothing to send by: this machine has no InfiniBand device that libibumad knows, and neither "
                  "IBSIM_SOCKNAME nor SIM_HOST names a simulated one"));
}

}  // namespace parley::mad_driver

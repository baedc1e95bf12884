// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <fmt/format.h>

#include "drivers/secure_env.hpp"
#include "tools/read_whole.hpp"
#include "tools/ssa/acm.hpp"

namespace parley::tools {

namespace {

constexpr std::size_t address_file_octets_max = 128 << 20;

std::string from_environment(const char* variable, const char* otherwise) {
  const char* const value = secure_env(variable);
  return value != nullptr && *value != 0 ? value : otherwise;
}

}  // namespace

std::string acmes_socket() { return from_environment("PARLEY_ACM_SOCKET", ssa_driver::acme_socket); }
std::string librdmacms_socket() {
  return from_environment("PARLEY_ACM_LIBRDMACM_SOCKET", ssa_driver::librdmacm_socket);
}

std::string hidden_librdmacm(const ssa_driver::AcmServiceOptions& service) {
  const auto wrong = [](const std::string& link, const std::string& place) {
    if (!ssa_driver::is_link_to(link, place)) return std::string();
    return fmt::format(
        "{}: {} is a symbolic link to it, as ibacm leaves it, so that librdmacm would use it: remove the link", place,
        link);
  };
  std::string out;
  for (const std::string& path : service.sockets)
    if (out.empty()) out = wrong(librdmacms_socket(), path);
  for (const std::string& path : service.port_files)
    if (out.empty()) out = wrong(ssa_driver::librdmacm_port_file, path);
  return out;
}

Or<ssa::acm::Addresses> read_addresses(const std::string& path) {
  ssa::acm::Addresses out;
  if (path.empty()) return out;
  const auto text = read_whole(path, address_file_octets_max);
  if (!text) return tl::unexpected(text.error());
  if (const auto added = out.add_file(*text); !added)
    return command_error(Exit::environment, fmt::format("{}: {}", path, added.error().sentence()));
  return out;
}

}  // namespace parley::tools

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/ssa/acm_place.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "drivers/asio/replacement.hpp"
#include "drivers/system_error.hpp"

namespace parley::ssa_driver {

namespace {

namespace fs = std::filesystem;

// What ibacm's symbolic links for librdmacm lead to.
constexpr const char* ibacms_socket = "ibacm-unix.sock";
constexpr const char* ibacms_port_file = "ibacm-tcp.port";

/// Its target; empty: it is not a symbolic link.
fs::path read_link(const std::string& path) {
  std::error_code error;
  return fs::read_symlink(path, error);
}

}  // namespace

bool is_link_to(const std::string& link, const std::string& path) {
  std::error_code error;
  const fs::path target = read_link(link);
  if (target.empty()) return false;
  const fs::path from = fs::absolute(link, error).parent_path() / target;  // an absolute target replaces the folder
  const fs::path end = fs::weakly_canonical(from, error);
  return !end.empty() && end == fs::weakly_canonical(fs::absolute(path, error), error) && !error;
}

Result<int> AcmPlaces::bind_socket(const std::string& path) {
  auto listener = LocalListener::open(
      path,
      {.type = SOCK_STREAM, .mode = ::geteuid() == 0 ? mode_t{0666} : mode_t{0600}, .link_target = ibacms_socket});
  if (!listener) return tl::unexpected(listener.error());
  sockets_.push_back(std::move(*listener));
  return sockets_.back().fd();
}

Result<void> AcmPlaces::write_port(const std::string& path, std::uint16_t port) {
  struct stat s {};
  const bool there = ::lstat(path.c_str(), &s) == 0;
  const bool is_link = there && S_ISLNK(s.st_mode) && read_link(path).filename() == ibacms_port_file;
  if (there && ((!is_link && !S_ISREG(s.st_mode)) || s.st_uid != ::geteuid()))
    return fail(Errc::address_in_use, "a file that is not this user's regular file is there");
  Replacement fresh(path);
  if (!fresh.write(std::to_string(port) + "\n", 0644) || ::fstat(fresh.fd(), &s) != 0 || !fresh.take_name())
    return tl::unexpected(system_error());
  port_files_.push_back({std::make_unique<asio_driver::Descriptor>(fresh.release()), OwnedName(path, s)});
  return {};
}

}  // namespace parley::ssa_driver

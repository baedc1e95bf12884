// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The files of ibacm's service: Unix sockets, and files with the number of its TCP port.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "drivers/asio/descriptor.hpp"
#include "parley/result.hpp"

namespace parley::ssa_driver {

/// Whether `link` is a symbolic link to `path`, which need not exist.
bool is_link_to(const std::string& link, const std::string& path);

/// Files of this process. They are removed with this object, unless their names belong to other files by then.
class AcmPlaces {
 public:
  AcmPlaces() = default;
  ~AcmPlaces();
  AcmPlaces(const AcmPlaces&) = delete;
  AcmPlaces& operator=(const AcmPlaces&) = delete;

  /// A bound stream socket, which the caller closes. Only root's is open to other users. A socket of this user on which no process
  /// listens is replaced, and so is the symbolic link that ibacm leaves at /run/ibacm.sock. A file PATH.lock keeps other
  /// processes from the same place; it stays. Errors: invalid_argument (length of the path), address_in_use (a process
  /// listens there, or another kind of file is there), the system's. For a moment the process has another umask.
  Result<int> bind_socket(const std::string& path);
  /// Writes a file that readers see whole. A regular file of this user is replaced, and so is ibacm's symbolic link at
  /// /run/ibacm.port. Errors: address_in_use (another kind of file, or another user's, is there), the system's.
  Result<void> write_port(const std::string& path, std::uint16_t port);

 private:
  struct File {
    std::string path;
    dev_t device;
    ino_t inode;
    std::unique_ptr<asio_driver::Descriptor>
        open{};  // so that no other file gets the number; a socket is open elsewhere
  };
  Result<void> lock(const std::string& path);
  Result<void> clear_socket(const std::string& path) const;
  bool has_made(dev_t device, ino_t inode) const;

  std::vector<File> files_;
  std::vector<std::unique_ptr<asio_driver::Descriptor>> locks_;
};

}  // namespace parley::ssa_driver

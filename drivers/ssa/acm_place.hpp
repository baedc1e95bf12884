// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The files of ibacm's service: Unix sockets, and files with the number of its TCP port.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "drivers/asio/local_socket.hpp"

namespace parley::ssa_driver {

/// Whether `link` is a symbolic link to `path`, which need not exist.
bool is_link_to(const std::string& link, const std::string& path);

/// Files of this process. They are removed with this object, unless their names belong to other files by then; locks stay.
class AcmPlaces {
 public:
  /// A bound stream socket, which is closed with this object. Only root's is open to other users. LocalListener has what is
  /// replaced, and its errors; the symbolic link that ibacm leaves at /run/ibacm.sock is replaced too.
  Result<int> bind_socket(const std::string& path);
  /// Writes a file that readers see whole. A regular file of this user is replaced, and so is ibacm's symbolic link at
  /// /run/ibacm.port. Errors: address_in_use (another kind of file, or another user's, is there), the system's.
  Result<void> write_port(const std::string& path, std::uint16_t port);

 private:
  struct PortFile {
    std::unique_ptr<asio_driver::Descriptor> open;
    OwnedName name;
  };

  std::vector<LocalListener> sockets_;
  std::vector<PortFile> port_files_;
};

}  // namespace parley::ssa_driver

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A daemon's control socket: one line in, one text out, by a socket in the file system that only its owner and root may
// use. A client sends a request of at most request_max octets that ends with a newline; the answer ends with the connection.
#pragma once
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "drivers/asio/local_socket.hpp"
#include "parley/result.hpp"
#include "parley/time.hpp"

struct pollfd;

namespace parley::ssa_driver {

/// $XDG_RUNTIME_DIR/parley-ssad.sock; for root, and without that folder, /run/parley-ssad.sock.
std::string default_control_socket();

class ControlServer {
 public:
  using Answer = std::function<std::string(std::string_view request)>;
  static constexpr std::size_t clients_max = 16, request_max = 512;
  static constexpr Duration client_time =
      std::chrono::seconds(5);  ///< for the request, and for each part of the answer

  /// The socket has mode 0600. Errors: those of LocalListener::open().
  static Result<std::unique_ptr<ControlServer>> open(const std::string& path, Answer answer);
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  /// Takes what there is without waiting.
  void turn(Instant now);
  void add_to(std::vector<pollfd>& polls) const;
  Instant next_deadline() const;
  std::uint64_t refused() const { return refused_; }  ///< clients: of other users, too long, too slow, too many

 private:
  struct Client {
    int fd;
    Instant until;
    std::string in, out;  // `out`: the answer; empty while the request is read
    std::size_t out_at = 0;
  };
  static constexpr Duration accept_pause = std::chrono::milliseconds(500);
  ControlServer(LocalListener listener, Answer answer);
  void accept_all(Instant now);
  /// False: it is done.
  bool serve(Instant now, Client& client);
  bool read(Instant now, Client& client);
  bool write(Instant now, Client& client);

  LocalListener listener_;
  Instant accept_at_{};  // zero: at any time; else the process has no descriptors before
  Answer answer_;
  std::list<Client> clients_;
  std::uint64_t refused_ = 0;
};

/// Sends a request to the daemon at `path`, and waits for its whole answer for at most `patience`. Errors: refused (no
/// answer; the socket is not of root or this user), timed_out, no_space (the answer has more than `octets_max`), the
/// system's (no daemon).
Result<std::string> ask_daemon(const std::string& path, std::string_view request,
                               Duration patience = std::chrono::seconds(10), std::size_t octets_max = 64 << 20);

}  // namespace parley::ssa_driver

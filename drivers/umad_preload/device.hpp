// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The device of a preloaded process: its files, and the thread that communicates with the server.
#pragma once
#include <mutex>
#include <unordered_map>

#include "drivers/umad_preload/agents.hpp"
#include "drivers/umad_preload/sysfs.hpp"

namespace parley::umad {

/// While it exists, this thread's calls go directly to the C library.
class DirectCalls {
 public:
  DirectCalls() : before_(now_) { now_ = true; }
  ~DirectCalls() { now_ = before_; }
  DirectCalls(const DirectCalls&) = delete;
  DirectCalls& operator=(const DirectCalls&) = delete;
  static bool now() { return now_; }

 private:
  static thread_local bool now_;
  bool before_;
};

class Device {
 public:
  /// The process's device, created at the first call. Null: there is no server.
  static Device* get();
  /// Without creating it.
  static Device* find();

  /// The path to use instead; none if the path is not ours.
  std::optional<std::string> place_of(std::string_view path);
  void refresh();
  /// A descriptor for poll(2), epoll(7) and select(2); negative: see errno.
  int open_umad(bool nonblocking);
  int open_is_sm();
  bool owns(int fd);
  /// False: not ours.
  bool close(int fd, int (*really)(int));
  /// After the server's end: earlier messages, then EIO, as Linux reports for a removed device.
  ssize_t read(int fd, void* out, std::size_t size);
  ssize_t write(int fd, const void* octets, std::size_t size);
  int ioctl(int fd, unsigned long request, void* argument);
  /// Detaches; later calls find no device.
  void end();

 private:
  struct Umad {
    File file;
    bool is_sm = false, nonblocking = false;
    bool shown = false;  ///< the descriptor is readable
  };
  static Device* make();
  int open_file(bool nonblocking, bool is_sm);
  void set_is_sm(bool is_sm);
  bool start();
  void run();
  void turn();
  void show(int fd, Umad& umad);
  void lose_server();
  int add_agent(Umad& umad, unsigned long request, void* argument);
  void announce_classes();

  // Set before others see the device; null after the end. Cleared under both mutexes, so that holding either one keeps
  // it.
  std::unique_ptr<ibsim::Client> client_;
  std::unique_ptr<Sysfs> sysfs_;
  Instant refreshed_{};       // when sysfs_ was last refreshed
  std::mutex control_mutex_;  // one request at a time; locked before mutex_
  std::mutex mutex_;          // for all following members; never held during a call that waits
  Agents agents_;
  std::unordered_map<int, std::unique_ptr<Umad>> files_;
  std::optional<ibsim::Data> stuck_;  // a datagram that the server does not accept yet
  ibsim::Receive classes_{};
  int wake_ = -1;
  bool server_gone_ = false;  // no more traffic
};

}  // namespace parley::umad

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The one device of a preloaded process: its files, and the thread that speaks to the server.
#pragma once
#include <mutex>
#include <unordered_map>

#include "drivers/umad_preload/agents.hpp"
#include "drivers/umad_preload/sysfs.hpp"

namespace parley::umad {

/// While it lives, what this thread calls goes to the C library itself.
class Inside {
 public:
  Inside() : before_(now_) { now_ = true; }
  ~Inside() { now_ = before_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  static bool now() { return now_; }

 private:
  static thread_local bool now_;
  bool before_;
};

class Device {
 public:
  /// The process's, made at the first call. Null: there is no server.
  static Device* get();
  /// Without making it.
  static Device* find();

  /// Where a path is to be looked up instead; nothing if it is none of ours.
  std::optional<std::string> place_of(std::string_view path);
  void refresh();
  /// A descriptor that poll(2), epoll(7) and select(2) know; negative: errno says why.
  int open_umad(bool nonblocking);
  int open_is_sm();
  bool owns(int fd);
  /// False: it is not ours.
  bool close(int fd, int (*really)(int));
  /// After the server's end: what came before, then EIO, which Linux gives of a device that was taken away.
  ssize_t read(int fd, void* out, std::size_t size);
  ssize_t write(int fd, const void* octets, std::size_t size);
  int ioctl(int fd, unsigned long request, void* argument);
  /// Says goodbye; what is called later finds no device.
  void end();

 private:
  struct Umad {
    File file;
    bool is_sm = false, nonblocking = false;
    bool shown = false;  ///< whether the descriptor is readable
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
  void tell_classes();

  // Set before others see the device; null from the end on. Taken away under both mutexes, so that either one keeps them.
  std::unique_ptr<ibsim::Client> client_;
  std::unique_ptr<Sysfs> sysfs_;
  Instant refreshed_{};       // sysfs_, the last time
  std::mutex control_mutex_;  // one question at a time; taken before mutex_
  std::mutex mutex_;          // of all that follows; never held in a call that waits
  Agents agents_;
  std::unordered_map<int, std::unique_ptr<Umad>> files_;
  std::optional<ibsim::Data> stuck_;  // what the server does not take yet
  ibsim::Receive classes_{};
  int wake_ = -1;
  bool server_gone_ = false;  // nothing comes or goes any more
};

}  // namespace parley::umad

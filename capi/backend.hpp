// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The backend of a context: sockets, NICs, or a host of a simulated network.
#pragma once
#include <memory>

#include "capi/error.hpp"
#include "parley/cm.hpp"
#include "parley/sim.hpp"

namespace parley::capi {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view provider() const = 0;
  virtual cm::Manager& manager() = 0;
  virtual Device& device() = 0;
  /// The program made a call, so the backend needs a turn: makes fd() readable.
  virtual void called() = 0;
  /// There are no more events to poll: fd() need not stay readable for them.
  virtual void drained() = 0;
  // These implement the functions of parley.h.
  virtual int fd() = 0;
  virtual int progress() = 0;
  virtual int wait(int timeout_ms) = 0;
  virtual int wake() = 0;
  virtual Instant now() const = 0;
  virtual Result<Address> address(Address::Family family) const = 0;
};

/// The number of forks between this process and its first ancestor with this library.
std::uint32_t forks_until_now() noexcept;

/// A simulated network: hosts around one switch.
class World {
 public:
  explicit World(const parley_world_opts& options);
  /// Null: failed; last_code() has the error.
  std::unique_ptr<Backend> add_host(const char* name, const cm::ManagerOptions& options);
  bool in_use() const { return contexts_ != 0; }
  /// forks_until_now() when it was opened.
  std::uint32_t forks() const { return forks_; }

 private:
  friend class SimBackend;
  parley_world_opts options_;
  sim::World world_;
  sim::NodeId switch_ = 0;
  std::uint32_t forks_ = forks_until_now();
  std::uint32_t contexts_ = 0, hosts_ = 0;
  std::uint32_t seen_ = 0;  // contexts that have something to poll and have not been called since
};

/// `provider`: "iwarp", "roce" or "rdmacm", as for open_host(). Null: failed; last_code() has the error.
std::unique_ptr<Backend> open_machine(std::string_view provider, const cm::ManagerOptions& options);

World* find_world(const parley_world* world);

}  // namespace parley::capi

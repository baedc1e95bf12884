// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The ranks that mpirun started, by the MPI library of the machine. Nothing of MPI is needed to build Parley: the library
// is loaded when a launcher's variables are set, and called by its binary interface. Two are known:
//
//   Open MPI   OMPI_COMM_WORLD_SIZE   libmpi.so.40 (Open MPI 3 to 5)
//   MPICH      PMI_SIZE               libmpich.so.12, libmpi.so.12 (MPICH 3.1 to 4 and others of its common interface)
//
// Only the functions below are called, all from one thread. Messages are octets; nothing here waits for a peer, apart
// from the start and the end: a peer may stop or die in the middle of a message.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "parley/bytes.hpp"

namespace parley::mpi {

enum class Launcher : std::uint8_t { none, open_mpi, mpich };
/// The launcher that started this process, if it started more than one.
Launcher launcher();

struct Functions;  ///< of the loaded library

class World {
 public:
  /// Loads the library and joins the other ranks; waits for them. Errors: one line for the user.
  static tl::expected<std::unique_ptr<World>, std::string> join(Launcher launcher);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  std::uint32_t rank() const { return rank_; }
  std::uint32_t size() const { return size_; }

  struct Received {
    std::uint32_t rank = 0;
    Bytes octets;
  };
  /// Sends without waiting; messages to one rank arrive in order.
  void send(std::uint32_t rank, Bytes octets);
  /// A message that has arrived whole; nothing if there is none. Messages of one rank come in order. A longer one than
  /// `max` octets becomes an empty one.
  std::optional<Received> receive(std::size_t max);
  /// A rank to or from which MPI could not carry a message: that message is lost.
  std::optional<std::uint32_t> next_failed();
  /// Messages that MPI still holds: to all ranks, and to one.
  std::size_t sending();
  std::size_t sending_to(std::uint32_t rank) const { return sending_to_[rank]; }
  /// Ends MPI. All ranks must call it, and each waits for the others. Without it the process may only exit.
  void finish();

 private:
  /// A message under way. MPI uses its octets until then.
  struct Pending {
    std::uint64_t request = 0;  ///< an MPI_Request of either library
    std::uint32_t rank = 0;     ///< the other one
    Bytes octets;
    bool too_long = false;  ///< to be received into nothing
    bool done = false, failed = false;
  };
  void test(Pending& pending);
  bool start_receiving(std::size_t max);
  explicit World(std::unique_ptr<Functions> functions);

  std::unique_ptr<Functions> functions_;
  std::uint32_t rank_ = 0, size_ = 1;
  std::list<Pending> sent_, coming_;
  std::vector<std::uint32_t> sending_to_;  ///< messages in sent_, by rank
  std::vector<std::uint32_t> failed_;
};

}  // namespace parley::mpi

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/mpi/mpi_world.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstring>
#include <string_view>
#include <utility>

#include "drivers/secure_env.hpp"

namespace parley::mpi {
namespace {

constexpr int success = 0;          ///< MPI_SUCCESS
constexpr int tag = 7471;           ///< of all messages
constexpr int thread_funneled = 1;  ///< MPI_THREAD_FUNNELED

/// An MPI_Comm, MPI_Datatype or MPI_Errhandler: a pointer in Open MPI, an int in MPICH. Both are passed in a register.
using Handle = std::uintptr_t;

/// Larger than the MPI_Status of either library.
struct Status {
  int words[16];
};

/// What is different between the two libraries.
struct Interface {
  const char* const* libraries;
  int any_source;
  std::size_t source_word;  ///< the place of MPI_SOURCE in a Status
};
constexpr const char* open_mpi_libraries[] = {"libmpi.so.40", nullptr};
constexpr const char* mpich_libraries[] = {"libmpich.so.12", "libmpi.so.12", nullptr};
constexpr Interface open_mpi{open_mpi_libraries, -1, 0};
constexpr Interface mpich{mpich_libraries, -2, 2};

/// The number of ranks that a launcher's variable names; 0 if it is not set.
unsigned ranks_of(const char* size) {
  const std::string_view text = size == nullptr ? "" : size;
  unsigned ranks = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  return error == std::errc{} && end == text.data() + text.size() ? ranks : 0;
}
unsigned launched(Launcher launcher) {
  return ranks_of(secure_env(launcher == Launcher::open_mpi ? "OMPI_COMM_WORLD_SIZE" : "PMI_SIZE"));
}

/// Messages that are received at once. A rank has fewer under way, so each rank's can be among them.
constexpr std::size_t coming_max = 65'536;

}  // namespace

struct Functions {
  Interface interface;
  void* library = nullptr;
  const char* name = nullptr;  ///< of the library
  Handle world = 0, byte = 0, errors_return = 0;
  int (*init_thread)(int*, char***, int, int*) = nullptr;
  int (*finalize)() = nullptr;
  int (*comm_rank)(Handle, int*) = nullptr;
  int (*comm_size)(Handle, int*) = nullptr;
  int (*comm_set_errhandler)(Handle, Handle) = nullptr;
  int (*isend)(const void*, int, Handle, int, int, Handle, void*) = nullptr;
  int (*test)(void*, int*, Status*) = nullptr;
  int (*iprobe)(int, int, Handle, int*, Status*) = nullptr;
  int (*get_count)(const Status*, Handle, int*) = nullptr;
  int (*irecv)(void*, int, Handle, int, int, Handle, void*) = nullptr;
};

namespace {

template <class Function>
bool find(void* library, const char* name, Function& function) {
  void* const found = ::dlsym(library, name);
  std::memcpy(&function, &found, sizeof found);
  return found != nullptr;
}

bool find_handles(Functions& f, Launcher launcher) {
  if (launcher == Launcher::mpich) {
    f.world = 0x44000000;
    f.byte = 0x4c00010d;
    f.errors_return = 0x54000001;
    return true;
  }
  return find(f.library, "ompi_mpi_comm_world", f.world) && find(f.library, "ompi_mpi_byte", f.byte) &&
         find(f.library, "ompi_mpi_errors_return", f.errors_return);
}

bool find_functions(Functions& f) {
  return find(f.library, "MPI_Init_thread", f.init_thread) && find(f.library, "MPI_Finalize", f.finalize) &&
         find(f.library, "MPI_Comm_rank", f.comm_rank) && find(f.library, "MPI_Comm_size", f.comm_size) &&
         find(f.library, "MPI_Comm_set_errhandler", f.comm_set_errhandler) && find(f.library, "MPI_Isend", f.isend) &&
         find(f.library, "MPI_Test", f.test) && find(f.library, "MPI_Iprobe", f.iprobe) &&
         find(f.library, "MPI_Get_count", f.get_count) && find(f.library, "MPI_Irecv", f.irecv);
}

tl::expected<std::unique_ptr<Functions>, std::string> load(Launcher launcher) {
  auto functions = std::make_unique<Functions>();
  functions->interface = launcher == Launcher::open_mpi ? open_mpi : mpich;
  std::string trouble;
  for (const char* const* name = functions->interface.libraries; *name != nullptr; ++name) {
    // Open MPI loads its components, which expect its symbols among the global ones. Never unloaded: MPI cannot start twice.
    functions->library = ::dlopen(*name, RTLD_NOW | RTLD_GLOBAL);
    functions->name = *name;
    if (functions->library != nullptr) break;
    if (trouble.empty()) trouble = ::dlerror();
  }
  const std::string started = launcher == Launcher::open_mpi ? "mpirun of Open MPI started this process"
                                                             : "mpirun of MPICH started this process";
  if (functions->library == nullptr) return tl::unexpected(started + ", but its library is missing: " + trouble);
  if (!find_handles(*functions, launcher) || !find_functions(*functions))
    return tl::unexpected(started + ", but its library has another binary interface");
  return functions;
}

}  // namespace

Launcher launcher() {
  for (const Launcher each : {Launcher::open_mpi, Launcher::mpich})
    if (launched(each) > 1) return each;
  return Launcher::none;
}

World::World(std::unique_ptr<Functions> functions) : functions_(std::move(functions)) {}
World::~World() {
  // MPI may still use the octets of messages under way: they stay until the process ends.
  for (std::list<Pending>* each : {&sent_, &coming_})
    if (!each->empty()) (void)new std::list<Pending>(std::move(*each));
}

tl::expected<std::unique_ptr<World>, std::string> World::join(Launcher launcher) {
  auto functions = load(launcher);
  if (!functions) return tl::unexpected(functions.error());
  std::unique_ptr<World> world(new World(std::move(*functions)));
  const Functions& f = *world->functions_;
  int provided = 0, rank = 0, size = 0;
  if (f.init_thread(nullptr, nullptr, thread_funneled, &provided) != success)
    return tl::unexpected(std::string("MPI does not start"));
  f.comm_set_errhandler(f.world, f.errors_return);
  if (f.comm_rank(f.world, &rank) != success || f.comm_size(f.world, &size) != success || rank < 0 || size <= rank)
    return tl::unexpected(std::string("MPI does not tell this process's rank"));
  if (const unsigned wanted = launched(launcher); static_cast<unsigned>(size) != wanted)
    return tl::unexpected("mpirun started " + std::to_string(wanted) + " ranks, and MPI's library " + f.name +
                          " sees " + std::to_string(size) + ": it belongs to another mpirun");
  world->rank_ = static_cast<std::uint32_t>(rank);
  world->size_ = static_cast<std::uint32_t>(size);
  world->sending_to_.resize(world->size_);
  return world;
}

void World::test(Pending& pending) {
  int done = 0;
  Status status{};
  pending.failed = functions_->test(&pending.request, &done, &status) != success;
  pending.done = pending.failed || done != 0;
}

void World::send(std::uint32_t rank, Bytes octets) {
  const Functions& f = *functions_;
  Pending& sent = sent_.emplace_back();
  sent.rank = rank;
  sent.octets = std::move(octets);
  if (sent.octets.size() <= INT_MAX && f.isend(sent.octets.data(), static_cast<int>(sent.octets.size()), f.byte,
                                               static_cast<int>(rank), tag, f.world, &sent.request) == success) {
    ++sending_to_[rank];
    return;
  }
  sent_.pop_back();
  failed_.push_back(rank);
}

bool World::start_receiving(std::size_t max) {
  const Functions& f = *functions_;
  int there = 0, count = 0;
  Status status{};
  if (coming_.size() >= coming_max) return false;
  if (f.iprobe(f.interface.any_source, tag, f.world, &there, &status) != success || there == 0) return false;
  const int source = status.words[f.interface.source_word];
  if (f.get_count(&status, f.byte, &count) != success || count < 0 || source < 0 ||
      static_cast<std::uint32_t>(source) >= size_)
    return false;
  // MPI_Recv would wait for the rest of a long message, and its sender may have stopped.
  Pending& coming = coming_.emplace_back();
  coming.rank = static_cast<std::uint32_t>(source);
  coming.too_long = static_cast<std::size_t>(count) > max;
  if (coming.too_long) count = 0;
  coming.octets.resize(static_cast<std::size_t>(count));
  if (f.irecv(coming.octets.data(), count, f.byte, source, tag, f.world, &coming.request) == success) return true;
  coming_.pop_back();
  failed_.push_back(static_cast<std::uint32_t>(source));
  return false;
}

std::optional<World::Received> World::receive(std::size_t max) {
  std::vector<std::uint32_t> unfinished;
  for (bool more = true; more;) {
    for (auto coming = coming_.begin(); coming != coming_.end();) {
      if (!coming->done) test(*coming);
      if (!coming->done || std::find(unfinished.begin(), unfinished.end(), coming->rank) != unfinished.end()) {
        unfinished.push_back((coming++)->rank);
        continue;
      }
      Received received{coming->rank, coming->too_long ? Bytes{} : std::move(coming->octets)};
      const bool failed = coming->failed && !coming->too_long;  // MPI calls a message that was cut failed too
      coming = coming_.erase(coming);
      if (!failed) return received;
      failed_.push_back(received.rank);
    }
    unfinished.clear();
    more = start_receiving(max);
  }
  return std::nullopt;
}

std::optional<std::uint32_t> World::next_failed() {
  if (failed_.empty()) return std::nullopt;
  const std::uint32_t last = failed_.back();
  failed_.pop_back();
  return last;
}

std::size_t World::sending() {
  for (auto sent = sent_.begin(); sent != sent_.end();) {
    test(*sent);
    if (sent->failed) failed_.push_back(sent->rank);
    if (sent->done) --sending_to_[sent->rank];
    sent = sent->done ? sent_.erase(sent) : std::next(sent);
  }
  return sent_.size();
}

void World::finish() { functions_->finalize(); }

}  // namespace parley::mpi

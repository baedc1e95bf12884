// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/xrcshm/segment.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <thread>

#include <fmt/format.h>

#include "base/after.hpp"
#include "drivers/asio/descriptor.hpp"
#include "drivers/clock.hpp"
#include "drivers/secure_env.hpp"

namespace parley::xrc {
namespace {

constexpr std::array<char, 8> magic{'P', 'A', 'R', 'L', 'E', 'Y', 'X', 'S'};
constexpr std::uint32_t version = 2;
// Two builds of one version may differ in this, and must not use one block.
constexpr std::uint32_t layout = sizeof(SharedRegistry) << 16 ^ sizeof(Arena) << 8 ^ sizeof(pthread_mutex_t);
constexpr off_t first_octet = off_t{1} << 40;  // offset of the locks; far beyond the end of the file

Error system_error(int number) { return {std::error_code(number, std::generic_category())}; }

/// The PID namespace of the process numbers in a block, and the boot that it belongs to.
struct Origin {
  std::uint64_t pid_namespace = 0;
  std::array<char, 40> boot{};
};
/// Errors: the system's. If the system does not report it, a mismatch with the block proves nothing.
Result<Origin> own_origin() {
  Origin out;
  struct stat s {};
  if (::stat("/proc/self/ns/pid", &s) != 0) return tl::unexpected(system_error(errno));
  out.pid_namespace = s.st_ino;
  const asio_driver::Descriptor file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  const ssize_t n = file.fd < 0 ? -1 : ::read(file.fd, out.boot.data(), out.boot.size() - 1);
  if (n < 0) return tl::unexpected(system_error(errno));
  if (n == 0) return tl::unexpected(system_error(EIO));
  return out;
}
struct flock lock_on(std::uint64_t member) {
  struct flock out {};
  out.l_type = F_WRLCK;
  out.l_whence = SEEK_SET;
  out.l_start = first_octet + static_cast<off_t>(member);
  out.l_len = 1;
  return out;
}
/// The guaranteed capacity of a block; beyond it, no_memory is returned before the arena is exhausted.
RegistryOptions bounded(RegistryOptions o) {
  o.domains_max = std::min(o.domains_max, 1024U);
  o.members_max = std::min(o.members_max, 1024U);
  o.tgts_max = std::min(o.tgts_max, 4096U);
  o.registrations_max = std::min(o.registrations_max, 32768U);
  o.srqs_max = std::min(o.srqs_max, 8192U);
  o.resting_max = std::min(o.resting_max, 8192U);
  o.events_max = std::min(o.events_max, 1024U);
  o.recovery = Duration{};  // no declarations are needed: the block keeps the state
  return o;
}

}  // namespace

std::string default_segment() {
  if (const char* named = secure_env("PARLEY_XRC_SEGMENT"); named != nullptr && *named != '\0') return named;
  return fmt::format("/dev/shm/parley-xrc-{}", ::geteuid());
}

Segment::~Segment() {
  if (whole_ != nullptr) ::munmap(whole_, 2 * Arena::block);
  if (fd_ >= 0) ::close(fd_);
}

// ---- opened ------------------------------------------------------------------------------------------------------

Result<std::shared_ptr<Segment>> Segment::open(const Options& given) {
  Options options = given;
  if (options.path.empty()) options.path = default_segment();
  if (!SharedRegistry::is_sensible(bounded(options.registry))) return refused(Refusal::invalid);
  // If a file was lost, the time gives a new epoch.
  auto epoch = static_cast<std::uint32_t>(std::max<std::time_t>(std::time(nullptr), 1));
  for (int i = 0; i < 16; ++i) {
    bool again = false;
    auto segment = attempt(options, again, epoch);
    if (segment || !again) return segment;
  }
  return refused(Refusal::timed_out);
}

/// `again`: the file was replaced meanwhile, or was damaged and has been moved aside.
Result<std::shared_ptr<Segment>> Segment::attempt(const Options& options, bool& again, std::uint32_t& epoch) {
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (options.make ? O_CREAT : 0);
  const int fd = ::open(options.path.c_str(), flags, 0600);
  if (fd < 0) {
    if (errno == ENOENT && !options.make) return refused(Refusal::no_segment);
    if (errno == EACCES) return refused(Refusal::segment_owner);
    if (errno == ELOOP || errno == EISDIR || errno == ENXIO) return refused(Refusal::segment_foreign);
    return tl::unexpected(system_error(errno));
  }
  const std::shared_ptr<Segment> segment(new Segment(options.path, fd, options.patience));
  if (const auto locked = segment->lock_file(); !locked) return tl::unexpected(locked.error());
  const auto proper = segment->is_proper();
  if (!proper) return tl::unexpected(proper.error());
  again = !*proper;
  if (again) return refused(Refusal::busy);
  if (const auto mapped = segment->map(); !mapped) return tl::unexpected(mapped.error());
  const auto found = segment->look();
  if (!found) return tl::unexpected(found.error());
  if (*found != SegmentState::usable) {
    if (*found == SegmentState::of_earlier_boot) epoch = std::max(epoch, segment->head().epoch + 1);
    if (!options.make) return refused(Refusal::no_segment);
    if (const auto made = segment->make(options.registry, epoch); !made) return tl::unexpected(made.error());
  } else if (segment->head().lost != 0) {
    epoch = std::max(epoch, segment->head().epoch + 1);
    again = ::unlink(options.path.c_str()) == 0;
    return refused(Refusal::stale_epoch);
  }
  ::flock(fd, LOCK_UN);
  return segment;
}

/// While it is checked and initialised. Its creator may be stopped, so the wait is bounded.
Result<void> Segment::lock_file() {
  const Instant end = after(clock_now(), patience_);
  while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return tl::unexpected(system_error(errno));
    if (clock_now() >= end) return refused(Refusal::timed_out);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return {};
}

/// False: the path now leads to another file.
Result<bool> Segment::is_proper() const {
  struct stat own {
  }, named{};
  if (::fstat(fd_, &own) != 0) return tl::unexpected(system_error(errno));
  if (!S_ISREG(own.st_mode)) return refused(Refusal::segment_foreign);
  if (own.st_uid != ::geteuid() || (own.st_mode & (S_IRWXG | S_IRWXO)) != 0) return refused(Refusal::segment_owner);
  if (own.st_size != 0 && own.st_size != static_cast<off_t>(Arena::block)) return refused(Refusal::segment_foreign);
  return ::lstat(path_.c_str(), &named) == 0 && named.st_ino == own.st_ino && named.st_dev == own.st_dev;
}

Result<void> Segment::map() {
  struct stat s {};
  if (::fstat(fd_, &s) != 0) return tl::unexpected(system_error(errno));
  const bool whole = s.st_blocks * 512 >= static_cast<blkcnt_t>(Arena::block);
  // Allocates all of it now: a full file system is an error here, but a signal later.
  int error = whole ? 0 : EINTR;
  while (error == EINTR) error = ::posix_fallocate(fd_, 0, static_cast<off_t>(Arena::block));
  if (error != 0) {
    if (s.st_size == 0) ::unlink(path_.c_str());
    if (error == ENOSPC || error == EFBIG || error == EDQUOT) return refused(Refusal::segment_full);
    return tl::unexpected(system_error(error));
  }
  whole_ = ::mmap(nullptr, 2 * Arena::block, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (whole_ == MAP_FAILED) {
    whole_ = nullptr;
    return refused(Refusal::no_memory);
  }
  const auto aligned = (reinterpret_cast<std::uintptr_t>(whole_) + Arena::block - 1) & ~(Arena::block - 1);
  block_ =
      ::mmap(reinterpret_cast<void*>(aligned), Arena::block, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, 0);
  if (block_ == MAP_FAILED) return tl::unexpected(system_error(errno));
  // A child does not share it: errors of the child would affect its parent.
  ::madvise(block_, Arena::block, MADV_DONTFORK);
  return {};
}

/// Returns the kind of the file. A creator that died has not written the magic number.
Result<Segment::SegmentState> Segment::look() const {
  const Head& h = head();
  if (h.magic == std::array<char, 8>{} && (h.version == 0 || h.version == version)) return SegmentState::unmade;
  if (h.magic != magic) return refused(Refusal::segment_foreign);
  if (h.version != version || h.layout != layout) return refused(Refusal::segment_version);
  const auto own = own_origin();
  if (!own) return tl::unexpected(own.error());
  if (h.boot != own->boot) return SegmentState::of_earlier_boot;
  if (h.pid_namespace != own->pid_namespace) return refused(Refusal::segment_elsewhere);
  return SegmentState::usable;
}

Result<void> Segment::make(const RegistryOptions& given, std::uint32_t epoch) {
  const auto own = own_origin();
  if (!own) return tl::unexpected(own.error());
  Head& h = head();
  h.magic = {};
  h.version = version;
  h.layout = layout;
  h.epoch = epoch;
  h.lost = 0;
  h.pid_namespace = own->pid_namespace;
  h.boot = own->boot;
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  const int error = ::pthread_mutex_init(&h.mutex, &attributes);
  ::pthread_mutexattr_destroy(&attributes);
  if (error != 0) return tl::unexpected(system_error(error));
  RegistryOptions options = bounded(given);
  options.epoch = epoch;
  if (const auto made = make_registry(block_, clock_now(), options); !made) return tl::unexpected(made.error());
  std::atomic_thread_fence(std::memory_order_release);
  h.magic = magic;
  return {};
}

// ---- the lock ----------------------------------------------------------------------------------------------------

Result<void> Segment::wait_for_lock(int error) {
  if (error == EBUSY) {
    const timespec until = timespec_of(after(clock_now(), patience_).time_since_epoch());
    error = ::pthread_mutex_clocklock(&head().mutex, CLOCK_MONOTONIC, &until);
  }
  if (error == ETIMEDOUT) return refused(head().lost == 0 ? Refusal::timed_out : Refusal::stale_epoch);
  if (error == EOWNERDEAD) {
    if (arena().is_sound()) {
      arena().undo();
      ::pthread_mutex_consistent(&head().mutex);
      ring_all();  // including those that it was about to wake
      return {};
    }
    ::pthread_mutex_unlock(&head().mutex);  // not made consistent: it can never be locked again
    return give_up();
  }
  return error == 0 ? Result<void>() : give_up();
}

/// Sleeping members must be notified as well.
Result<void> Segment::give_up() const {
  head().lost = 1;
  ring_all();
  return refused(Refusal::stale_epoch);
}

/// The members to wake are recorded in the same transaction as the reason.
void Segment::settle(SharedRegistry& registry, std::vector<std::uint64_t>& waking) {
  while (const auto member = registry.poll_waiting()) waking.push_back(member->number);
  while (registry.poll_ended()) {
  }
}

// ---- wake-ups ----------------------------------------------------------------------------------------------------

std::uint32_t Segment::bell(std::uint64_t member) const { return head().bell[member % bells].load(); }

/// Called with the lock: if this process dies here, the next one rings for all.
void Segment::ring(const std::vector<std::uint64_t>& members) {
  for (const std::uint64_t member : members) {
    nudge(member);
    arena().point();
  }
}

void Segment::ring(std::atomic<std::uint32_t>& bell) {
  bell.fetch_add(1);
  ::syscall(SYS_futex, &bell, FUTEX_WAKE, 1 << 30, nullptr, nullptr, 0);
}

void Segment::ring_all() const {
  for (auto& bell : head().bell) ring(bell);
}

void Segment::wait(std::uint64_t member, std::uint32_t seen, Instant until) const {
  const Duration left = until == never ? Duration(std::chrono::hours(1)) : until - clock_now();
  if (left <= Duration{}) return;
  const timespec longest = timespec_of(left);
  ::syscall(SYS_futex, &head().bell[member % bells], FUTEX_WAIT, seen, &longest, nullptr, 0);
}

void Segment::announce() const { ::futimens(fd_, nullptr); }

// ---- whose attachment it is --------------------------------------------------------------------------------------

bool Segment::hold(std::uint64_t member) const {
  struct flock lock = lock_on(member);
  return ::fcntl(fd_, F_OFD_SETLK, &lock) == 0;
}

bool Segment::is_held(std::uint64_t member) const {
  struct flock lock = lock_on(member);
  return ::fcntl(fd_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace parley::xrc

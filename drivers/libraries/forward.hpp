// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Libraries that are opened on use, so that programs without an RDMA device need not have them. Each of their functions that
// Parley calls is defined here under its own name, not visible outside, and calls the real one.
#pragma once
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string_view>
#include <type_traits>

namespace parley::libraries {

/// What is said where a call has failed with ELIBACC.
inline constexpr std::string_view no_libibverbs =
    "libibverbs.so.1 cannot be opened, or lacks a function (Debian: libibverbs1)";
inline constexpr std::string_view no_librdmacm =
    "librdmacm.so.1 cannot be opened, or lacks a function (Debian: librdmacm1)";
inline constexpr std::string_view no_libibumad =
    "libibumad.so.3 cannot be opened, or lacks a function (Debian: libibumad3)";

/// The versions of the binary interfaces that the calls are written for.
inline constexpr char libibverbs[] = "libibverbs.so.1", librdmacm[] = "librdmacm.so.1", libibumad[] = "libibumad.so.3",
                      libisal[] = "libisal.so.2";

/// A shared library that stays open once it was.
class Library {
 public:
  constexpr explicit Library(const char* name) : name_(name) {}

  /// Null: neither the program nor the library has it. As a linked program would, it takes the function of a preloaded
  /// library or of the program first.
  void* find(const char* function) {
    if (void* const own = ::dlsym(RTLD_DEFAULT, function); own != nullptr) return own;
    void* const library = handle();
    return library == nullptr ? nullptr : ::dlsym(library, function);
  }
  /// An errno for a function that is not found.
  static int why() {
    const int probe = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (probe < 0) return errno;  // no library can be opened without a descriptor
    ::close(probe);
    return ELIBACC;
  }

 private:
  void* handle() {
    void* found = handle_.load(std::memory_order_acquire);
    if (found == nullptr && (found = ::dlopen(name_, RTLD_NOW | RTLD_LOCAL)) != nullptr)
      handle_.store(found, std::memory_order_release);  // of two threads both get the same
    return found;
  }

  const char* name_;
  std::atomic<void*> handle_ = nullptr;
};

template <class Function>
class Forward;

/// One function of a library. Without it, a call fails with ELIBACC, or EMFILE if no descriptor is left: a null pointer or -1.
template <class R, class... A>
class Forward<R(A...)> {
 public:
  constexpr Forward(Library& library, const char* name) : library_(library), name_(name) {}

  R operator()(A... arguments) {
    auto* at = at_.load(std::memory_order_acquire);
    if (at == nullptr) {
      at = reinterpret_cast<R (*)(A...)>(library_.find(name_));
      at_.store(at, std::memory_order_release);
    }
    if (at != nullptr) return at(arguments...);
    errno = Library::why();
    if constexpr (std::is_pointer_v<R>) return nullptr;
    if constexpr (std::is_integral_v<R>) return static_cast<R>(-1);
  }

 private:
  Library& library_;
  const char* name_;
  std::atomic<R (*)(A...)> at_ = nullptr;
};

}  // namespace parley::libraries

/// Defines a function of the Library `library`.
#define PARLEY_FORWARD(result, name, parameters, arguments)                              \
  extern "C" __attribute__((visibility("hidden"))) result name parameters {              \
    static constinit parley::libraries::Forward<result parameters> real{library, #name}; \
    return real arguments;                                                               \
  }

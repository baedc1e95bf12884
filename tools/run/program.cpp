// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/run/program.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "drivers/asio/descriptor.hpp"
#include "tools/run/elf.hpp"

namespace parley::tools {

namespace {

constexpr int deepest = 5;  // interpreters of interpreters, as the system allows

/// The file that execvp(3) would run.
struct Executable {
  std::string path;
  int error = 0;        ///< an errno; 0: it may be executed
  bool exists = false;  ///< as far as this user can see
};

Executable executable_at(const std::string& path) {
  struct stat is {};
  if (::stat(path.c_str(), &is) != 0) return {path, errno, false};
  if (!S_ISREG(is.st_mode) || ::access(path.c_str(), X_OK) != 0) return {path, EACCES, true};
  return {path, 0, true};
}

Executable look_up(const std::string& program) {
  if (program.find('/') != std::string::npos) return executable_at(program);
  const char* const set = std::getenv("PATH");
  std::string_view folders = set == nullptr ? "/bin:/usr/bin" : set;
  Executable out{program, ENOENT, false};
  for (bool more = !program.empty(); more;) {
    const std::size_t end = folders.find(':');
    more = end != std::string_view::npos;
    const std::string folder(folders.substr(0, end));
    Executable found = executable_at(folder.empty() ? program : folder + "/" + program);
    if (found.error == 0) return found;
    if (found.exists) out = std::move(found);
    folders.remove_prefix(more ? end + 1 : folders.size());
  }
  return out;
}

/// The reads of an open file.
ReadAt reader_of(int fd) {
  return [fd](std::uint64_t offset, MutBytes out) -> std::size_t {
    if (offset > INT64_MAX - out.size()) return 0;
    const ssize_t got = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    return got < 0 ? 0 : static_cast<std::size_t>(got);
  };
}

ElfFacts facts_of_file(const std::string& path) {
  const asio_driver::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return file.fd < 0 ? ElfFacts{} : read_elf(reader_of(file.fd));
}

/// The interpreter of a script; empty if `fd` is none.
std::string script_interpreter(int fd) {
  std::array<std::uint8_t, 256> head{};  // as far as the system reads
  const std::size_t got = reader_of(fd)(0, head);
  std::string_view line(reinterpret_cast<const char*>(head.data()), got);
  if (!line.starts_with("#!")) return {};
  line = line.substr(2, line.find('\n') == std::string_view::npos ? std::string_view::npos : line.find('\n') - 2);
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  return std::string(line.substr(0, line.find_first_of(" \t\r")));
}

/// The right that makes the dynamic loader ignore LD_PRELOAD (AT_SECURE); empty: none.
std::string_view more_rights(const std::string& path) {
  struct stat is {};
  struct statvfs on {};
  if (::stat(path.c_str(), &is) != 0 || ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return {};
  if (::statvfs(path.c_str(), &on) == 0 && (on.f_flag & ST_NOSUID) != 0) return {};
  if ((is.st_mode & S_ISUID) != 0 && is.st_uid != ::getuid()) return "is setuid";
  if ((is.st_mode & S_ISGID) != 0 && (is.st_mode & S_IXGRP) != 0 && is.st_gid != ::getgid()) return "is setgid";
  if (::getuid() != 0 && ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0)
    return "has file capabilities";
  return {};
}

std::string_view name_in(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool same_file(const std::string& a, const std::string& b) {
  std::error_code none;
  return std::filesystem::equivalent(a, b, none) && !none;
}

std::string why_not_elf(const std::string& path, const ElfFacts& facts, const std::string& library) {
  if (facts.form == ElfFacts::Form::damaged) return "its ELF headers are damaged";
  const ElfFacts wanted = facts_of_file(library), own = facts_of_file("/proc/self/exe");
  if (wanted.form == ElfFacts::Form::whole && !facts.same_machine(wanted))
    return fmt::format("it is for {}, and {} is for {}", facts.machine_text(), name_in(library), wanted.machine_text());
  // The dynamic loader as a command has no interpreter, and obeys LD_PRELOAD.
  if (!own.interpreter.empty() && same_file(path, own.interpreter)) return {};
  if (facts.interpreter.empty())
    return "it is statically linked and loads no library; run a dynamically linked build of it. If it only starts "
           "other programs: eval \"$(parley run --env)\", and run it without parley";
  if (!own.interpreter.empty() && name_in(facts.interpreter) != name_in(own.interpreter))
    return fmt::format("it has another C library: its loader is {}, and {} needs {}",
                       printable(facts.interpreter, false), name_in(library), name_in(own.interpreter));
  if (::access(facts.interpreter.c_str(), X_OK) != 0)
    return fmt::format("its loader {}: {}", printable(facts.interpreter, false), std::strerror(errno));
  return {};
}

std::string why_not_file(const Executable& found, const std::string& library, int depth) {
  const std::string name = printable(found.path, false);
  if (found.error != 0)
    return fmt::format("{}: {}{}", name, std::strerror(found.error),
                       found.exists ? ": it is not an executable file" : "");
  const asio_driver::Descriptor file(::open(found.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (const std::string interpreter = file.fd < 0 ? "" : script_interpreter(file.fd); !interpreter.empty()) {
    const std::string why =
        depth == deepest ? "too many interpreters" : why_not_file(executable_at(interpreter), library, depth + 1);
    return why.empty() ? why : fmt::format("{}: its interpreter {}", name, why);
  }
  if (const auto right = more_rights(found.path); !right.empty())  // those of a script have no effect
    return fmt::format("{}: it {}, so that the dynamic loader ignores LD_PRELOAD; run a copy of it without that right",
                       name, right);
  if (file.fd < 0) return {};
  const ElfFacts facts = read_elf(reader_of(file.fd));
  if (facts.form == ElfFacts::Form::other) return {};  // execvp(3) runs it by /bin/sh
  const std::string why = why_not_elf(found.path, facts, library);
  return why.empty() ? why : fmt::format("{}: {}", name, why);
}

}  // namespace

std::string why_not_preloaded(const std::string& program, const std::string& library) {
  return why_not_file(look_up(program), library, 0);
}

std::string preload_list(const std::string& library, const std::string& before) {
  for (std::size_t at = 0; at < before.size();) {
    const std::size_t end = std::min(before.find_first_of(preload_separators, at), before.size());
    if (std::string_view(before).substr(at, end - at) == library) return before;
    at = end + 1;
  }
  return before.empty() ? library : library + ":" + before;
}

}  // namespace parley::tools

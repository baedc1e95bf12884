// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/read_whole.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "drivers/asio/descriptor.hpp"

namespace parley::tools {

namespace {

std::string size_text(std::size_t octets) {
  constexpr std::size_t mib = 1 << 20;
  return octets % mib == 0 ? fmt::format("{} MiB", octets / mib) : fmt::format("{} octets", octets);
}

}  // namespace

Or<std::string> read_whole(const std::string& path, std::size_t octets_max) {
  constexpr std::size_t part_max = 1 << 20;
  const asio_driver::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  std::string out;
  for (ssize_t got = file.fd < 0 ? -1 : 1; got != 0;) {
    const std::size_t had = out.size(), part = std::min(part_max, octets_max + 1 - had);
    if (got > 0) {
      out.resize(had + part);
      got = ::read(file.fd, out.data() + had, part);
      out.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    }
    if (got < 0 && file.fd >= 0 && errno == EINTR) {
      got = 1;
      continue;
    }
    if (got < 0)
      return command_error(Exit::environment,
                           fmt::format("{} cannot be read: {}", printable(path, false), std::strerror(errno)));
    if (out.size() > octets_max)
      return command_error(Exit::environment,
                           fmt::format("{} has more than {}", printable(path, false), size_text(octets_max)));
  }
  return out;
}

}  // namespace parley::tools

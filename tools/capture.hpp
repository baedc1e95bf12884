// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A pcapng file of what went over the sockets: every tap record becomes the Ethernet, IP and TCP frames it would have
// been.
#pragma once
#include <memory>
#include <string>

#include "parley/tcp_host.hpp"
#include "tools/options.hpp"

namespace parley::tools {

class CaptureWriter {
 public:
  /// Creates the file. Errors: environment.
  static Or<std::unique_ptr<CaptureWriter>> create(const std::string& path);
  virtual ~CaptureWriter() = default;
  virtual void add(const TapRecord& record) = 0;
  /// Flushes and closes. Errors: environment.
  virtual Or<void> finish() = 0;
};

}  // namespace parley::tools

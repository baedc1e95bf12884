// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// SHA-256 (FIPS 180-4) of octets that arrive piece by piece, by OpenSSL's libcrypto.
#pragma once
#include <memory>
#include <string>

#include "parley/bytes.hpp"

namespace parley::tools {

class Sha256 {
 public:
  Sha256();
  void add(ConstBytes octets);
  /// 64 hexadecimal digits; empty if the library failed. Do not call add() afterwards.
  std::string finish();

 private:
  struct Freer {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, Freer> context_;
};

}  // namespace parley::tools

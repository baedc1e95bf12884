// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/pcap/digest.hpp"

#include "base/text.hpp"

#include <openssl/evp.h>

#include <array>

namespace parley::tools {
namespace {

EVP_MD_CTX* of(const auto& context) { return static_cast<EVP_MD_CTX*>(context.get()); }

}  // namespace

void Sha256::Freer::operator()(void* context) const { ::EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context)); }

Sha256::Sha256() : context_(::EVP_MD_CTX_new()) {
  if (!context_ || ::EVP_DigestInit_ex(of(context_), ::EVP_sha256(), nullptr) != 1) context_.reset();
}

void Sha256::add(ConstBytes octets) {
  if (context_ && ::EVP_DigestUpdate(of(context_), octets.data(), octets.size()) != 1) context_.reset();
}

std::string Sha256::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> octets{};
  unsigned size = 0;
  if (!context_ || ::EVP_DigestFinal_ex(of(context_), octets.data(), &size) != 1) return {};
  context_.reset();
  return hex_digits({octets.data(), size});
}

}  // namespace parley::tools

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "parley/address.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>

#include "base/address_text.hpp"

namespace parley {
namespace {

using Groups = std::array<std::uint16_t, 8>;

Groups groups_of(const std::array<std::uint8_t, 16>& octets) {
  Groups g{};
  for (std::size_t i = 0; i < g.size(); ++i) g[i] = static_cast<std::uint16_t>(octets[2 * i] << 8 | octets[2 * i + 1]);
  return g;
}

bool is_v4_mapped(const Groups& g) {
  for (std::size_t i = 0; i < 5; ++i)
    if (g[i] != 0) return false;
  return g[5] == 0xFFFF;
}

constexpr std::size_t dotted_max = 15;  // "255.255.255.255"

/// Writes the address at `at`, which has room for dotted_max characters. Returns the end.
char* put_dotted(char* at, const std::uint8_t* o) {
  for (int i = 0; i < 4; ++i) {
    if (i != 0) *at++ = '.';
    const unsigned n = o[i];
    if (n >= 100) *at++ = static_cast<char>('0' + n / 100);
    if (n >= 10) *at++ = static_cast<char>('0' + n / 10 % 10);
    *at++ = static_cast<char>('0' + n % 10);
  }
  return at;
}

std::string dotted(const std::uint8_t* o) {
  char text[dotted_max];
  return {text, put_dotted(text, o)};
}

// RFC 5952 §4: lower case, no leading zeros, the first longest run of two or more zero groups as "::".
std::string v6_text(const std::array<std::uint8_t, 16>& octets) {
  const Groups g = groups_of(octets);
  const bool mapped = is_v4_mapped(g);  // RFC 5952 §5: a known prefix keeps the dotted form
  const std::size_t count = mapped ? 6 : 8;
  std::size_t best = 0, best_length = 1;
  for (std::size_t i = 0; i < count;) {
    std::size_t end = i;
    while (end < count && g[end] == 0) ++end;
    if (end - i > best_length) {
      best = i;
      best_length = end - i;
    }
    i = end + 1;
  }
  std::string out;
  for (std::size_t i = 0; i < count;) {
    if (best_length > 1 && i == best) {
      out += "::";
      i += best_length;
      continue;
    }
    if (!out.empty() && out.back() != ':') out += ':';
    char text[8];
    std::snprintf(text, sizeof text, "%x", static_cast<unsigned>(g[i]));
    out += text;
    ++i;
  }
  if (mapped) {
    if (out.back() != ':') out += ':';
    out += dotted(octets.data() + 12);
  }
  return out;
}

template <class T>
std::optional<T> decimal(std::string_view text) {
  T v{};
  const char* end = text.data() + text.size();
  const auto [at, ec] = std::from_chars(text.data(), end, v);
  if (text.empty() || ec != std::errc{} || at != end) return std::nullopt;
  return v;
}

// Exactly four decimal numbers, no leading zeros: other parsers read those as octal.
bool parse_v4(std::string_view text, std::uint8_t* out) {
  for (int i = 0; i < 4; ++i) {
    const std::size_t dot = i < 3 ? text.find('.') : text.size();
    if (dot == std::string_view::npos) return false;
    const std::string_view part = text.substr(0, dot);
    const auto v = decimal<std::uint8_t>(part);
    if (!v || (part.size() > 1 && part[0] == '0')) return false;
    out[i] = *v;
    text.remove_prefix(std::min(text.size(), dot + 1));
  }
  return text.empty();
}

std::optional<std::uint16_t> hex_group(std::string_view text) {
  std::uint16_t v = 0;
  const char* end = text.data() + text.size();
  if (text.empty() || text.size() > 4) return std::nullopt;
  const auto [at, ec] = std::from_chars(text.data(), end, v, 16);
  if (ec != std::errc{} || at != end) return std::nullopt;
  return v;
}

// One side of "::", or the whole: groups joined by ':'; the last may be dotted (RFC 4291 §2.2).
bool parse_groups(std::string_view text, bool may_be_dotted, std::array<std::uint8_t, 16>& out, std::size_t& used) {
  used = 0;
  if (text.empty()) return true;
  for (;;) {
    const std::size_t colon = text.find(':');
    const std::string_view part = text.substr(0, colon);
    if (colon == std::string_view::npos && may_be_dotted && part.find('.') != std::string_view::npos) {
      if (used > 12 || !parse_v4(part, out.data() + used)) return false;
      used += 4;
      return true;
    }
    const auto v = hex_group(part);
    if (!v || used > 14) return false;
    out[used++] = static_cast<std::uint8_t>(*v >> 8);
    out[used++] = static_cast<std::uint8_t>(*v & 0xFF);
    if (colon == std::string_view::npos) return true;
    text.remove_prefix(colon + 1);
  }
}

bool parse_v6(std::string_view text, std::array<std::uint8_t, 16>& out) {
  std::array<std::uint8_t, 16> head{}, tail{};
  std::size_t head_size = 0, tail_size = 0;
  const std::size_t gap = text.find("::");
  if (gap == std::string_view::npos) {
    if (!parse_groups(text, true, head, head_size) || head_size != 16) return false;
    out = head;
    return true;
  }
  if (!parse_groups(text.substr(0, gap), false, head, head_size) ||
      !parse_groups(text.substr(gap + 2), true, tail, tail_size) || head_size + tail_size > 14)
    return false;
  out = {};
  std::copy(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(head_size), out.begin());
  std::copy(tail.begin(), tail.begin() + static_cast<std::ptrdiff_t>(tail_size),
            out.end() - static_cast<std::ptrdiff_t>(tail_size));
  return true;
}

}  // namespace

Address Address::any(Family family, std::uint16_t port) {
  Address a;
  a.family = family;
  a.port = port;
  return a;
}

Address Address::loopback(Family family, std::uint16_t port) {
  Address a = family == Family::v4 ? v4(127, 0, 0, 1, port) : any(family, port);
  if (family == Family::v6) a.octets[15] = 1;
  return a;
}

Address Address::v4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d, std::uint16_t port) {
  Address out = any(Family::v4, port);
  out.octets[0] = a;
  out.octets[1] = b;
  out.octets[2] = c;
  out.octets[3] = d;
  return out;
}

bool Address::is_any() const {
  const std::size_t n = family == Family::v4 ? 4 : 16;
  for (std::size_t i = 0; i < n; ++i)
    if (octets[i] != 0) return false;
  return true;
}

bool Address::is_link_local() const {
  if (family == Family::v4) return octets[0] == 169 && octets[1] == 254;  // RFC 3927 §1
  return octets[0] == 0xFE && (octets[1] & 0xC0) == 0x80;                 // RFC 4291 §2.5.6
}

std::string Address::to_string() const {
  char text[address_text_max];
  return {text, write_address(*this, text)};
}

// Every event of a connection has addresses, so that the IPv4 text is written without a copy.
char* write_address(const Address& address, char* at) {
  if (address.family == Address::Family::v4) {
    at = put_dotted(at, address.octets.data());
  } else {
    const std::string text = v6_text(address.octets);
    *at++ = '[';
    at = std::copy(text.begin(), text.end(), at);
    if (address.scope_id != 0) {
      *at++ = '%';
      at = std::to_chars(at, at + 10, address.scope_id).ptr;
    }
    *at++ = ']';  // RFC 5952 §6
  }
  *at++ = ':';
  return std::to_chars(at, at + 5, address.port).ptr;
}

Result<Address> Address::parse(std::string_view text) {
  Address a;
  std::string_view host = text, port;
  bool has_port = false;
  if (!text.empty() && text.front() == '[') {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return fail(Errc::bad_address, "'[' without ']' behind the IPv6 address");
    host = text.substr(1, close - 1);
    std::string_view behind = text.substr(close + 1);
    has_port = !behind.empty();
    if (has_port && behind.front() != ':') return fail(Errc::bad_address, "after ']' comes ':' and the port");
    if (has_port) port = behind.substr(1);
    a.family = Family::v6;
  } else if (text.find(':') == text.rfind(':')) {
    const std::size_t colon = text.find(':');
    has_port = colon != std::string_view::npos;
    host = text.substr(0, colon);
    if (has_port) port = text.substr(colon + 1);
  } else {
    a.family = Family::v6;
  }
  if (has_port) {
    const auto v = decimal<std::uint16_t>(port);
    if (!v) return fail(Errc::bad_address, "the port is not a number from 0 to 65535");
    a.port = *v;
  }
  if (a.family == Family::v4)
    return parse_v4(host, a.octets.data()) ? Result<Address>(a)
                                           : fail(Errc::bad_address, "an IPv4 address is four numbers from 0 to 255");
  if (const std::size_t percent = host.find('%'); percent != std::string_view::npos) {  // RFC 4007 §11.2
    const auto v = decimal<std::uint32_t>(host.substr(percent + 1));
    if (!v) return fail(Errc::bad_address, "the scope behind '%' is not an interface's number");
    a.scope_id = *v;
    host = host.substr(0, percent);
  }
  return parse_v6(host, a.octets)
             ? Result<Address>(a)
             : fail(Errc::bad_address, "an IPv6 address is eight groups of hexadecimal digits (RFC 4291 §2.2)");
}

}  // namespace parley

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Typed access to the structures of management datagrams. A structure holds its octets as on the wire, reserved bits
// included. Each member is a constant whose type carries the owning structure and the value's type:
//
//   auto info = PortInfo::parse(octets);
//   if (info->get(PortInfo::port_state) == PortState::active) lid = info->get(PortInfo::lid);
//   NodeRecord record;
//   record.set(NodeRecord::lid, 5).set(NodeRecord::node_info, NodeInfo{}.set(NodeInfo::num_ports, 36));
//
// A member of another structure, or a value of another type, does not compile. Numbers wider than the member are
// truncated.
#pragma once
#include <algorithm>
#include <array>
#include <concepts>

#include "base/bits.hpp"
#include "parley/result.hpp"
#include "wire/mad/layout.hpp"

namespace parley::wire::mad {

enum class StructureId : std::uint16_t {
#define PARLEY_X(name, octets, attribute, section, list) name,
  PARLEY_MAD_STRUCTURES(PARLEY_X)
#undef PARLEY_X
};

template <class Owner, class Value>
struct Member {
  std::uint16_t bit, width, count;
};

template <class T>
concept Structured = requires {
  T::layout;
};

/// The type of the value that a member is set to.
template <class Value>
using Argument = std::conditional_t<std::is_same_v<Value, Text>, std::string_view,
                                    std::conditional_t<std::is_same_v<Value, Octets>, ConstBytes, Value>>;

namespace detail {
inline MutBytes part(MutBytes octets, std::size_t bit, std::size_t width, std::size_t index) {
  return octets.subspan((bit + index * width) / 8, width / 8);
}
/// Copies `in`, as far as it fits, and fills the rest of `out` with zeros.
inline void fill(MutBytes out, ConstBytes in) {
  const std::size_t n = std::min(out.size(), in.size());
  std::fill(std::copy_n(in.begin(), n, out.begin()), out.end(), std::uint8_t{0});
}
}  // namespace detail

template <class Self, std::size_t Size>
class Structure {
 public:
  static constexpr std::size_t size = Size;

  /// Reads the first `size` octets. Errors: truncated.
  static Result<Self> parse(ConstBytes in) {
    if (in.size() < Size) return fail(Errc::truncated);
    Self out;
    std::copy_n(in.begin(), Size, out.octets_.begin());
    return out;
  }
  /// Writes `size` octets.
  void emit(MutBytes out) const { std::copy(octets_.begin(), octets_.end(), out.begin()); }
  ConstBytes octets() const { return octets_; }
  MutBytes octets() { return octets_; }

  /// A number, flag, enumerator, GID or structure. `index` must be below the member's count.
  template <class Value>
  Value get(Member<Self, Value> member, std::size_t index = 0) const {
    PARLEY_ASSERT(index < member.count);
    if constexpr (std::same_as<Value, Gid>) {
      Gid out{};
      detail::fill(out, part(member, index));
      return out;
    } else if constexpr (Structured<Value>) {
      return *Value::parse(part(member, index));
    } else {
      return static_cast<Value>(read_bits(octets_, member.bit + index * member.width, member.width));
    }
  }
  /// Up to the first zero.
  std::string get(Member<Self, Text> member) const {
    const ConstBytes all = whole(member);
    return std::string(all.begin(), std::find(all.begin(), all.end(), 0));
  }
  ConstBytes get(Member<Self, Octets> member) const { return whole(member); }

  template <class Value>
  Self& set(Member<Self, Value> member, std::type_identity_t<Value> value) {
    return set_at(member, 0, value);
  }
  template <class Value>
  Self& set_at(Member<Self, Value> member, std::size_t index, std::type_identity_t<Value> value) {
    PARLEY_ASSERT(index < member.count);
    if constexpr (std::same_as<Value, Gid>)
      detail::fill(detail::part(octets_, member.bit, member.width, index), value);
    else if constexpr (Structured<Value>)
      detail::fill(detail::part(octets_, member.bit, member.width, index), value.octets());
    else
      write_bits(octets_, member.bit + index * member.width, member.width, static_cast<std::uint64_t>(value));
    return self();
  }
  /// Truncates to the member's length, or pads with zeros.
  Self& set(Member<Self, Text> member, std::string_view text) {
    return set_octets(member, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  }
  Self& set(Member<Self, Octets> member, ConstBytes octets) { return set_octets(member, octets); }

  bool operator==(const Structure&) const = default;

 private:
  template <class Value>
  ConstBytes part(Member<Self, Value> member, std::size_t index) const {
    return ConstBytes(octets_).subspan((member.bit + index * member.width) / 8U, member.width / 8U);
  }
  template <class Value>
  ConstBytes whole(Member<Self, Value> member) const {
    return ConstBytes(octets_).subspan(member.bit / 8U, member.count);
  }
  template <class Value>
  Self& set_octets(Member<Self, Value> member, ConstBytes octets) {
    detail::fill(MutBytes(octets_).subspan(member.bit / 8U, member.count), octets);
    return self();
  }
  Self& self() { return static_cast<Self&>(*this); }

  std::array<std::uint8_t, Size> octets_{};
};

}  // namespace parley::wire::mad

// A structure of a list in parley/wire/mad_*.h: PARLEY_MAD_SMP_STRUCTURES(PARLEY_MAD_DEFINE).
#define PARLEY_MAD_MEMBER(name, octet, bit, width, count, kind) \
  static constexpr Member<Self, typename TypeOf<Kind::kind, width>::type> name{octet * 8 + bit, width, count};
#define PARLEY_MAD_PART(name, octet, count, type) \
  static constexpr Member<Self, type> name{octet * 8, type::size * 8, count};
#define PARLEY_MAD_NO_MEMBER(octet, bit, width)
#define PARLEY_MAD_DEFINE(name, octets, attribute_, section, list) \
  struct name : Structure<name, octets> {                          \
    using Self = name;                                             \
    static constexpr StructureId structure_id = StructureId::name; \
    static constexpr std::uint16_t attribute = attribute_;         \
    static const Layout layout;                                    \
    list(PARLEY_MAD_MEMBER, PARLEY_MAD_PART, PARLEY_MAD_NO_MEMBER) \
  };

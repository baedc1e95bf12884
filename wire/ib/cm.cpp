// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The reader and the writer are visitors of the fields in parley/wire/ibcm_fields.h.
#include "wire/ib/cm.hpp"

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/bytes_io.hpp"
#include "wire/ib/cm_fields.hpp"

namespace parley::wire::ib {
namespace {

// Reads 8 octets for each number: no number begins in the last seven octets of a message, or is wider than 64 bits.
class FieldReader {  // into a cleared message
 public:
  explicit FieldReader(ConstBytes in) : in_(in) {}
  template <class Place, class T>
  void field(Place, T& value) {
    value = static_cast<T>(number(Place{}));
  }
  template <class Place>
  void field(Place, Gid& value) {
    octets(Place{}, value);
  }
  template <class Place>
  void part(Place, std::uint32_t& value, unsigned shift) {
    value |= static_cast<std::uint32_t>(number(Place{})) << shift;
  }
  template <class Place, std::size_t N>
  void octets(Place, std::array<std::uint8_t, N>& value) {
    std::copy_n(in_.begin() + static_cast<std::ptrdiff_t>(Place::octet), N, value.begin());
  }

 private:
  template <class Place>
  std::uint64_t number(Place) {
    return Reader(in_.subspan(Place::octet)).be64() << Place::bit >> (64 - Place::width);
  }
  ConstBytes in_;
};

class FieldWriter {  // into zeroed octets
 public:
  explicit FieldWriter(MutBytes out) : out_(out) {}
  template <class Place, class T>
  void field(Place, const T& value) {
    put(Place{}, static_cast<std::uint64_t>(value));
  }
  template <class Place>
  void field(Place, const Gid& value) {
    octets(Place{}, value);
  }
  template <class Place>
  void part(Place, std::uint32_t value, unsigned shift) {
    put(Place{}, value >> shift);
  }
  template <class Place, std::size_t N>
  void octets(Place, const std::array<std::uint8_t, N>& value) {
    std::copy_n(value.begin(), N, out_.begin() + static_cast<std::ptrdiff_t>(Place::octet));
  }

 private:
  template <class Place>
  void put(Place, std::uint64_t from) {
    constexpr unsigned bit = Place::bit, width = Place::width;
    Writer w(out_.subspan(Place::octet));
    if constexpr (bit == 0 && width == 64) return w.be64(from);
    if constexpr (bit == 0 && width == 32) return w.be32(static_cast<std::uint32_t>(from));
    if constexpr (bit == 0 && width == 16) return w.be16(static_cast<std::uint16_t>(from));
    if constexpr (bit == 0 && width == 8) return w.u8(static_cast<std::uint8_t>(from));
    const std::uint64_t in_place = from << (64 - width) >> bit;
    for (unsigned i = 0; 8 * i < bit + width; ++i)  // other fields may have bits of the same octets
      out_[Place::octet + i] |= static_cast<std::uint8_t>(in_place >> (56 - 8 * i));
  }
  MutBytes out_;
};

template <class M>
struct Facts;
#define PARLEY_X(name, number, structure, list, text)                                                          \
  template <>                                                                                                  \
  struct Facts<structure> {                                                                                    \
    static constexpr CmMessageType attribute = CmMessageType::name;                                            \
  };                                                                                                           \
  static_assert(mad::structure::attribute == (number) && mad::structure::size == PARLEY_IBCM_LEN);             \
  static_assert(mad::structure::private_data.bit / 8 + std::tuple_size_v<decltype(structure::private_data)> == \
                PARLEY_IBCM_LEN);
PARLEY_IBCM_MESSAGES(PARLEY_X)
#undef PARLEY_X

/// False: no message has this attribute.
template <std::size_t I = 0>
bool read_body(std::uint16_t attribute, FieldReader& io, CmBody& body) {
  if constexpr (I < std::variant_size_v<CmBody>) {
    using M = std::variant_alternative_t<I, CmBody>;
    if (attribute != static_cast<std::uint16_t>(Facts<M>::attribute)) return read_body<I + 1>(attribute, io, body);
    visit_fields(io, body.emplace<I>());
    return true;
  } else {
    return false;
  }
}

Result<void> read(ConstBytes mad, CmMessage& out) {
  if (mad.size() < PARLEY_IB_MAD_LEN) return fail(Errc::truncated);
  const MadHeader header = *MadHeader::parse(mad);
  if (header.mgmt_class != PARLEY_IB_CLASS_CM)
    return fail(Errc::unsupported, "the MAD is of class {a}, not {b} (Communication Management)", header.mgmt_class,
                PARLEY_IB_CLASS_CM);
  if (header.base_version != PARLEY_IB_MAD_BASE_VERSION || header.class_version != PARLEY_IB_CLASS_CM_VERSION)
    return fail(Errc::unsupported, "the MAD has base version {a} and class version {b}, not 1 and 2",
                header.base_version, header.class_version);
  if (header.method != PARLEY_IB_MAD_METHOD_SEND)
    return fail(Errc::unsupported, "a message of the CM has method {b} (Send), not {a}", header.method,
                PARLEY_IB_MAD_METHOD_SEND);
  FieldReader io(mad.subspan(PARLEY_IB_MAD_HEADER_LEN, PARLEY_IBCM_LEN));
  if (!read_body(header.attribute_id, io, out.body))
    return fail(Errc::unsupported, "no message of the CM has attribute {a}", header.attribute_id);
  out.transaction_id = header.transaction_id;
  out.attribute_modifier = header.attribute_modifier;
  return {};
}

}  // namespace

CmMessageType CmMessage::type() const {
  return std::visit([](const auto& m) { return Facts<std::decay_t<decltype(m)>>::attribute; }, body);
}

Result<CmMessage> CmMessage::parse(ConstBytes mad) {
  Result<CmMessage> out;  // filled in place: a message spans several cache lines
  if (auto good = read(mad, *out); !good) out = tl::unexpected(std::move(good.error()));
  return out;
}

template <class M>
void emit_cm(const M& body, std::uint64_t transaction_id, std::uint32_t attribute_modifier, MutBytes out) {
  MadHeader{.mgmt_class = PARLEY_IB_CLASS_CM,
            .class_version = PARLEY_IB_CLASS_CM_VERSION,
            .method = PARLEY_IB_MAD_METHOD_SEND,
            .transaction_id = transaction_id,
            .attribute_id = static_cast<std::uint16_t>(Facts<M>::attribute),
            .attribute_modifier = attribute_modifier}
      .emit(out);
  const MutBytes rest = out.subspan(PARLEY_IB_MAD_HEADER_LEN, PARLEY_IBCM_LEN);
  std::fill(rest.begin(), rest.end(), std::uint8_t{0});
  FieldWriter io(rest);
  visit_fields(io, body);
}
#define PARLEY_EMIT(type) template void emit_cm(const type&, std::uint64_t, std::uint32_t, MutBytes);
PARLEY_EMIT(CmReq)
PARLEY_EMIT(CmMra)
PARLEY_EMIT(CmRej)
PARLEY_EMIT(CmRep)
PARLEY_EMIT(CmRtu)
PARLEY_EMIT(CmDreq)
PARLEY_EMIT(CmDrep)
PARLEY_EMIT(CmSidrReq)
PARLEY_EMIT(CmSidrRep)
PARLEY_EMIT(CmLap)
PARLEY_EMIT(CmApr)
#undef PARLEY_EMIT

void CmMessage::emit(MutBytes out) const {
  std::visit([&](const auto& m) { emit_cm(m, transaction_id, attribute_modifier, out); }, body);
}

}  // namespace parley::wire::ib

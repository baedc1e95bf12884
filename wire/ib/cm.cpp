// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One list of fields for each message serves reading and writing: Get and Put have the same calls. Octets are counted from the
// end of the MAD header, bits from the most significant one, as in the tables of IBA vol. 1 §12.6 to §12.11.
#include "wire/ib/cm.hpp"

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/bytes_io.hpp"

namespace parley::wire::ib {
namespace {

// No field has more than 64 bits, or begins in the last seven octets of a message.
class Get {
 public:
  explicit Get(ConstBytes in) : in_(in) {}
  template <class T>
  void bits(std::size_t octet, unsigned bit, unsigned width, T& value) {
    value = static_cast<T>(Reader(in_.subspan(octet)).be64() << bit >> (64 - width));
  }
  template <std::size_t N>
  void bytes(std::size_t octet, std::array<std::uint8_t, N>& value) {
    std::copy_n(in_.begin() + static_cast<std::ptrdiff_t>(octet), N, value.begin());
  }

 private:
  ConstBytes in_;
};

class Put {  // into zeros
 public:
  explicit Put(MutBytes out) : out_(out) {}
  template <class T>
  void bits(std::size_t octet, unsigned bit, unsigned width, const T& value) {
    const auto from = static_cast<std::uint64_t>(value);
    Writer w(out_.subspan(octet));
    if (bit == 0 && width == 64) return w.be64(from);
    if (bit == 0 && width == 32) return w.be32(static_cast<std::uint32_t>(from));
    if (bit == 0 && width == 16) return w.be16(static_cast<std::uint16_t>(from));
    if (bit == 0 && width == 8) return w.u8(static_cast<std::uint8_t>(from));
    const std::uint64_t in_place = from << (64 - width) >> bit;
    for (unsigned i = 0; 8 * i < bit + width; ++i)  // other fields may have bits of the same octets
      out_[octet + i] |= static_cast<std::uint8_t>(in_place >> (56 - 8 * i));
  }
  template <std::size_t N>
  void bytes(std::size_t octet, const std::array<std::uint8_t, N>& value) {
    std::copy_n(value.begin(), N, out_.begin() + static_cast<std::ptrdiff_t>(octet));
  }

 private:
  MutBytes out_;
};

template <class Io, class T>
void u8(Io& io, std::size_t octet, T& value) {
  io.bits(octet, 0, 8, value);
}
template <class Io, class T>
void u16(Io& io, std::size_t octet, T& value) {
  io.bits(octet, 0, 16, value);
}
template <class Io, class T>
void u24(Io& io, std::size_t octet, T& value) {
  io.bits(octet, 0, 24, value);
}
template <class Io, class T>
void u32(Io& io, std::size_t octet, T& value) {
  io.bits(octet, 0, 32, value);
}
template <class Io, class T>
void u64(Io& io, std::size_t octet, T& value) {
  io.bits(octet, 0, 64, value);
}

template <class Io, class M>
void both_comm_ids(Io& io, M& m) {
  u32(io, 0, m.local_comm_id);
  u32(io, 4, m.remote_comm_id);
}

// `base`: 52 for the primary path, 96 for the alternate one.
template <class Io, class P>
void req_path(Io& io, std::size_t base, P& path) {
  u16(io, base, path.local_lid);
  u16(io, base + 2, path.remote_lid);
  io.bytes(base + 4, path.local_gid);
  io.bytes(base + 20, path.remote_gid);
  io.bits(base + 36, 0, 20, path.flow_label);
  io.bits(base + 39, 2, 6, path.packet_rate);
  u8(io, base + 40, path.traffic_class);
  u8(io, base + 41, path.hop_limit);
  io.bits(base + 42, 0, 4, path.sl);
  io.bits(base + 42, 4, 1, path.subnet_local);
  io.bits(base + 43, 0, 5, path.local_ack_timeout);
}

template <class Io, class M>
void req_fields(Io& io, M& m) {
  u32(io, 0, m.local_comm_id);
  u24(io, 5, m.ece_vendor);
  u64(io, 8, m.service_id);
  u64(io, 16, m.local_ca_guid);
  u32(io, 28, m.local_q_key);
  u24(io, 32, m.local_qpn);
  u8(io, 35, m.responder_resources);
  u24(io, 36, m.local_eecn);
  u8(io, 39, m.initiator_depth);
  u24(io, 40, m.remote_eecn);
  io.bits(43, 0, 5, m.remote_cm_response_timeout);
  io.bits(43, 5, 2, m.service);
  io.bits(43, 7, 1, m.flow_control);
  u24(io, 44, m.starting_psn);
  io.bits(47, 0, 5, m.local_cm_response_timeout);
  io.bits(47, 5, 3, m.retry_count);
  u16(io, 48, m.p_key);
  io.bits(50, 0, 4, m.path_mtu);
  io.bits(50, 4, 1, m.rdc_exists);
  io.bits(50, 5, 3, m.rnr_retry_count);
  io.bits(51, 0, 4, m.max_cm_retries);
  io.bits(51, 4, 1, m.srq);
  io.bits(51, 5, 3, m.extended_service);
  req_path(io, 52, m.primary);
  req_path(io, 96, m.alternate);
}

template <class Io, class M>
void rep_fields(Io& io, M& m) {
  both_comm_ids(io, m);
  u32(io, 8, m.local_q_key);
  u24(io, 12, m.local_qpn);
  u24(io, 16, m.local_eecn);
  u24(io, 20, m.starting_psn);
  u8(io, 24, m.responder_resources);
  u8(io, 25, m.initiator_depth);
  io.bits(26, 0, 5, m.target_ack_delay);
  io.bits(26, 5, 2, m.failover_accepted);
  io.bits(26, 7, 1, m.flow_control);
  io.bits(27, 0, 3, m.rnr_retry_count);
  io.bits(27, 3, 1, m.srq);
  u64(io, 28, m.local_ca_guid);
}

void ece_vendor(Get& io, CmRep& m) {
  std::uint32_t high = 0, middle = 0, low = 0;
  u8(io, 15, high);
  u8(io, 19, middle);
  u8(io, 23, low);
  m.ece_vendor = high << 16 | middle << 8 | low;
}
void ece_vendor(Put& io, const CmRep& m) {
  const std::uint32_t high = m.ece_vendor >> 16, middle = m.ece_vendor >> 8;
  u8(io, 15, high);
  u8(io, 19, middle);
  u8(io, 23, m.ece_vendor);
}

template <class Io, class M>
void lap_fields(Io& io, M& m) {
  both_comm_ids(io, m);
  u24(io, 12, m.remote_qpn);
  io.bits(15, 0, 5, m.remote_cm_response_timeout);
  u16(io, 20, m.alternate.local_lid);
  u16(io, 22, m.alternate.remote_lid);
  io.bytes(24, m.alternate.local_gid);
  io.bytes(40, m.alternate.remote_gid);
  io.bits(56, 0, 20, m.alternate.flow_label);
  u8(io, 59, m.alternate.traffic_class);
  u8(io, 60, m.alternate.hop_limit);
  io.bits(61, 2, 6, m.alternate.packet_rate);
  io.bits(62, 0, 4, m.alternate.sl);
  io.bits(62, 4, 1, m.alternate.subnet_local);
  io.bits(63, 0, 5, m.alternate.local_ack_timeout);
}

template <class Io, class M>
void fields(Io& io, M& m) {
  using T = std::remove_const_t<M>;
  if constexpr (std::is_same_v<T, CmReq>) {
    req_fields(io, m);
  } else if constexpr (std::is_same_v<T, CmRep>) {
    rep_fields(io, m);
    ece_vendor(io, m);
  } else if constexpr (std::is_same_v<T, CmLap>) {
    lap_fields(io, m);
  } else if constexpr (std::is_same_v<T, CmMra>) {
    both_comm_ids(io, m);
    io.bits(8, 0, 2, m.about);
    io.bits(9, 0, 5, m.service_timeout);
  } else if constexpr (std::is_same_v<T, CmRej>) {
    both_comm_ids(io, m);
    io.bits(8, 0, 2, m.about);
    io.bits(9, 0, 7, m.info_length);
    u16(io, 10, m.reason);
    io.bytes(12, m.info);
  } else if constexpr (std::is_same_v<T, CmDreq>) {
    both_comm_ids(io, m);
    u24(io, 8, m.remote_qpn);
  } else if constexpr (std::is_same_v<T, CmApr>) {
    both_comm_ids(io, m);
    u8(io, 8, m.info_length);
    u8(io, 9, m.status);
    io.bytes(12, m.info);
  } else if constexpr (std::is_same_v<T, CmSidrReq>) {
    u32(io, 0, m.request_id);
    u16(io, 4, m.p_key);
    u64(io, 8, m.service_id);
  } else if constexpr (std::is_same_v<T, CmSidrRep>) {
    u32(io, 0, m.request_id);
    u8(io, 4, m.status);
    u8(io, 5, m.info_length);
    u24(io, 8, m.qpn);
    u64(io, 12, m.service_id);
    u32(io, 20, m.q_key);
    io.bytes(24, m.info);
  } else {
    both_comm_ids(io, m);
  }
}

// Its two upper octets and the lower one have the QPN between them.
void sidr_ece(Get& io, CmSidrRep& m) {
  std::uint32_t high = 0, low = 0;
  u16(io, 6, high);
  u8(io, 11, low);
  m.ece_vendor = high << 8 | low;
}
void sidr_ece(Put& io, const CmSidrRep& m) {
  const std::uint32_t high = m.ece_vendor >> 8;
  u16(io, 6, high);
  u8(io, 11, m.ece_vendor);
}

template <class M>
struct Facts;
#define PARLEY_FACTS(type, message)                                     \
  template <>                                                           \
  struct Facts<type> {                                                  \
    static constexpr CmMessageType attribute = CmMessageType::message;  \
    static constexpr std::size_t private_data = private_data_##message; \
  };
#define PARLEY_X(name, attribute, size, offset, text) constexpr std::size_t private_data_##name = offset;
PARLEY_IBCM_MESSAGES(PARLEY_X)
#undef PARLEY_X
PARLEY_FACTS(CmReq, req)
PARLEY_FACTS(CmMra, mra)
PARLEY_FACTS(CmRej, rej)
PARLEY_FACTS(CmRep, rep)
PARLEY_FACTS(CmRtu, rtu)
PARLEY_FACTS(CmDreq, dreq)
PARLEY_FACTS(CmDrep, drep)
PARLEY_FACTS(CmSidrReq, sidr_req)
PARLEY_FACTS(CmSidrRep, sidr_rep)
PARLEY_FACTS(CmLap, lap)
PARLEY_FACTS(CmApr, apr)
#undef PARLEY_FACTS

template <class Io, class M>
void everything(Io& io, M& m) {
  using T = std::remove_const_t<M>;
  static_assert(Facts<T>::private_data + std::tuple_size_v<decltype(T::private_data)> == PARLEY_IBCM_LEN);
  fields(io, m);
  if constexpr (std::is_same_v<T, CmSidrRep>) sidr_ece(io, m);
  io.bytes(Facts<T>::private_data, m.private_data);
}

/// False: there is no such message.
template <std::size_t I = 0>
bool read_body(std::uint16_t attribute, Get& io, CmBody& body) {
  if constexpr (I < std::variant_size_v<CmBody>) {
    using M = std::variant_alternative_t<I, CmBody>;
    if (attribute != static_cast<std::uint16_t>(Facts<M>::attribute)) return read_body<I + 1>(attribute, io, body);
    everything(io, body.emplace<I>());
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
  Get io(mad.subspan(PARLEY_IB_MAD_HEADER_LEN, PARLEY_IBCM_LEN));
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
  Result<CmMessage> out;  // in place: a message is as long as several lines of the cache
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
  Put io(rest);
  everything(io, body);
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

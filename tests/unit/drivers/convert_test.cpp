// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parley's verbs as libibverbs' structures and back, whole: each attribute alone, and each bit of the mask alone.
#include <gtest/gtest.h>

#if PARLEY_HAVE_RDMA
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "drivers/verbs/convert.hpp"

namespace parley::verbs {
namespace {

/// Fields that are not zero, by name.
class Fields {
 public:
  template <class T>
  Fields& add(std::string_view name, const T& value) {
    if (static_cast<std::uint64_t>(value) != 0)
      text_ += fmt::format("{}{}={}", text_.empty() ? "" : " ", name, static_cast<std::uint64_t>(value));
    return *this;
  }
  template <class T>
  Fields& maybe(std::string_view name, const std::optional<T>& value) {
    if (value) text_ += fmt::format("{}{}={}", text_.empty() ? "" : " ", name, static_cast<std::uint64_t>(*value));
    return *this;
  }
  Fields& in(std::string_view name, const std::string& fields) {
    if (!fields.empty()) text_ += fmt::format("{}{}({})", text_.empty() ? "" : " ", name, fields);
    return *this;
  }
  std::string text() const { return text_; }

 private:
  std::string text_;
};

std::string fields_of(const ibv_ah_attr& ah) {
  Fields out;
  out.add("dlid", ah.dlid).add("sl", ah.sl).add("bits", ah.src_path_bits).add("rate", ah.static_rate);
  out.add("port", ah.port_num).add("global", ah.is_global).add("flow", ah.grh.flow_label);
  out.add("sgid", ah.grh.sgid_index).add("hops", ah.grh.hop_limit).add("class", ah.grh.traffic_class);
  out.add("first", ah.grh.dgid.raw[0]).add("last", ah.grh.dgid.raw[15]);
  return out.text();
}

std::string fields_of(const AhAttr& ah) {
  Fields out;
  out.add("dlid", ah.dlid).add("sl", ah.sl).add("bits", ah.src_path_bits).add("rate", ah.static_rate);
  out.add("port", ah.port_num).add("global", ah.grh ? 1 : 0);
  if (!ah.grh) return out.text();
  out.add("flow", ah.grh->flow_label).add("sgid", ah.grh->sgid_index).add("hops", ah.grh->hop_limit);
  out.add("class", ah.grh->traffic_class).add("first", ah.grh->dgid[0]).add("last", ah.grh->dgid[15]);
  return out.text();
}

std::string fields_of(const ibv_qp_attr& a) {
  Fields out;
  out.add("state", a.qp_state).add("cur", a.cur_qp_state).add("notify", a.en_sqd_async_notify);
  out.add("access", a.qp_access_flags).add("pkey", a.pkey_index).add("port", a.port_num).add("qkey", a.qkey);
  out.add("mtu", a.path_mtu).add("timeout", a.timeout).add("retry", a.retry_cnt).add("rnr", a.rnr_retry);
  out.add("rq_psn", a.rq_psn).add("reads", a.max_rd_atomic).add("min_rnr", a.min_rnr_timer).add("sq_psn", a.sq_psn);
  out.add("answers", a.max_dest_rd_atomic).add("mig", a.path_mig_state).add("dest", a.dest_qp_num);
  out.in("ah", fields_of(a.ah_attr)).in("alt", fields_of(a.alt_ah_attr));
  out.add("alt_pkey", a.alt_pkey_index).add("alt_port", a.alt_port_num).add("alt_timeout", a.alt_timeout);
  return out.text();
}

std::string fields_of(const QpAttr& a) {
  Fields out;
  out.maybe("state", a.state).maybe("cur", a.cur_state).maybe("notify", a.en_sqd_async_notify);
  out.maybe("access", a.access).maybe("pkey", a.pkey_index).maybe("port", a.port_num).maybe("qkey", a.qkey);
  out.maybe("mtu", a.path_mtu).maybe("timeout", a.timeout).maybe("retry", a.retry_cnt).maybe("rnr", a.rnr_retry);
  out.maybe("rq_psn", a.rq_psn).maybe("reads", a.max_rd_atomic).maybe("min_rnr", a.min_rnr_timer);
  out.maybe("sq_psn", a.sq_psn).maybe("answers", a.max_dest_rd_atomic).maybe("mig", a.path_mig_state);
  out.maybe("dest", a.dest_qp_num).in("ah", a.ah ? fields_of(*a.ah) : "").add("draining", a.sq_draining ? 1 : 0);
  return out.text();
}

std::string converted(const QpAttr& attr) {
  const ModifyArgs args = to_ibv(attr);
  return fmt::format("{:#x}: {}", args.mask, fields_of(args.attr));
}

AhAttr global_path() {
  AhAttr ah{.dlid = 7, .sl = 3, .src_path_bits = 1, .static_rate = 2, .port_num = 4};
  ah.grh = GlobalRoute{.flow_label = 0x12345, .sgid_index = 5, .hop_limit = 63, .traffic_class = 9};
  ah.grh->dgid[0] = 0xFE;
  ah.grh->dgid[15] = 0xAB;
  return ah;
}
constexpr std::string_view global_fields =
    "dlid=7 sl=3 bits=1 rate=2 port=4 global=1 flow=74565 sgid=5 hops=63 class=9 first=254 last=171";

TEST(NicVerbs, PathsAreTheSameInBothForms) {
  EXPECT_EQ(fields_of(to_ibv(global_path())), global_fields);
  EXPECT_EQ(fields_of(from_ibv(to_ibv(global_path()))), global_fields);
  AhAttr local = global_path();
  local.grh.reset();
  EXPECT_EQ(fields_of(to_ibv(local)), "dlid=7 sl=3 bits=1 rate=2 port=4");
  EXPECT_EQ(fields_of(from_ibv(to_ibv(local))), "dlid=7 sl=3 bits=1 rate=2 port=4");
}

// With the values of libibverbs' bits, which are an ABI.
TEST(NicVerbs, EachAttributeIsAskedForByItsBit) {
  EXPECT_EQ(converted({.state = QpState::sqd}), "0x1: state=4");
  EXPECT_EQ(converted({.cur_state = QpState::rts}), "0x2: cur=3");
  EXPECT_EQ(converted({.en_sqd_async_notify = true}), "0x4: notify=1");
  EXPECT_EQ(converted({.access = Access::remote_write | Access::remote_atomic}), "0x8: access=10");
  EXPECT_EQ(converted({.pkey_index = std::uint16_t{300}}), "0x10: pkey=300");
  EXPECT_EQ(converted({.port_num = std::uint8_t{2}}), "0x20: port=2");
  EXPECT_EQ(converted({.qkey = 0x8000'0001}), "0x40: qkey=2147483649");
  EXPECT_EQ(converted({.ah = global_path()}), fmt::format("0x80: ah({})", global_fields));
  EXPECT_EQ(converted({.path_mtu = Mtu::octets_1024}), "0x100: mtu=3");
  EXPECT_EQ(converted({.timeout = std::uint8_t{14}}), "0x200: timeout=14");
  EXPECT_EQ(converted({.retry_cnt = std::uint8_t{6}}), "0x400: retry=6");
  EXPECT_EQ(converted({.rnr_retry = std::uint8_t{7}}), "0x800: rnr=7");
  EXPECT_EQ(converted({.rq_psn = 0xABCDEF}), "0x1000: rq_psn=11259375");
  EXPECT_EQ(converted({.max_rd_atomic = std::uint16_t{254}}), "0x2000: reads=254");
  EXPECT_EQ(converted({.alt_path = AltPath{.ah = global_path(), .pkey_index = 8, .port_num = 3, .timeout = 12}}),
            fmt::format("0x4000: alt({}) alt_pkey=8 alt_port=3 alt_timeout=12", global_fields));
  EXPECT_EQ(converted({.min_rnr_timer = std::uint8_t{31}}), "0x8000: min_rnr=31");
  EXPECT_EQ(converted({.sq_psn = 0x123456}), "0x10000: sq_psn=1193046");
  EXPECT_EQ(converted({.max_dest_rd_atomic = std::uint16_t{16}}), "0x20000: answers=16");
  EXPECT_EQ(converted({.path_mig_state = MigState::armed}), "0x40000: mig=2");
  EXPECT_EQ(converted({.dest_qp_num = 0xFEDCBA}), "0x100000: dest=16702650");
  EXPECT_EQ(converted({}), "0x0: ");
}

TEST(NicVerbs, DepthsAboveAnOctetAreTheMostThatFits) {
  EXPECT_EQ(converted({.max_rd_atomic = std::uint16_t{255}}), "0x2000: reads=255");
  EXPECT_EQ(converted({.max_rd_atomic = std::uint16_t{256}}), "0x2000: reads=255");
  EXPECT_EQ(converted({.max_dest_rd_atomic = std::uint16_t{65535}}), "0x20000: answers=255");
}

TEST(NicVerbs, AnAnswerHasWhatItsMaskSays) {
  QpAttr all{.state = QpState::rts, .access = Access::remote_read, .pkey_index = std::uint16_t{5}};
  all.port_num = std::uint8_t{2};
  all.qkey = 0x11223344;
  all.ah = global_path();
  all.path_mtu = Mtu::octets_4096;
  all.timeout = std::uint8_t{14};
  all.retry_cnt = std::uint8_t{6};
  all.rnr_retry = std::uint8_t{7};
  all.rq_psn = 0xABCDEF;
  all.max_rd_atomic = std::uint16_t{16};
  all.min_rnr_timer = std::uint8_t{12};
  all.sq_psn = 0x123456;
  all.max_dest_rd_atomic = std::uint16_t{8};
  all.path_mig_state = MigState::rearm;
  all.dest_qp_num = 0x777;
  const ibv_qp_attr attr = to_ibv(all).attr;
  const std::vector<std::pair<int, std::string>> answers = {
      {IBV_QP_STATE, "state=3"},
      {IBV_QP_CUR_STATE, ""},
      {IBV_QP_ACCESS_FLAGS, "access=4"},
      {IBV_QP_PKEY_INDEX, "pkey=5"},
      {IBV_QP_PORT, "port=2"},
      {IBV_QP_QKEY, "qkey=287454020"},
      {IBV_QP_PATH_MTU, "mtu=5"},
      {IBV_QP_TIMEOUT, "timeout=14"},
      {IBV_QP_RETRY_CNT, "retry=6"},
      {IBV_QP_RNR_RETRY, "rnr=7"},
      {IBV_QP_RQ_PSN, "rq_psn=11259375"},
      {IBV_QP_MAX_QP_RD_ATOMIC, "reads=16"},
      {IBV_QP_MIN_RNR_TIMER, "min_rnr=12"},
      {IBV_QP_SQ_PSN, "sq_psn=1193046"},
      {IBV_QP_MAX_DEST_RD_ATOMIC, "answers=8"},
      {IBV_QP_PATH_MIG_STATE, "mig=1"},
      {IBV_QP_DEST_QPN, "dest=1911"},
      {IBV_QP_AV, fmt::format("ah({})", global_fields)},
      {IBV_QP_ALT_PATH, ""},
      {0, ""},
  };
  for (const auto& [bit, fields] : answers) EXPECT_EQ(fields_of(from_ibv(attr, bit)), fields) << "bit " << bit;
  EXPECT_EQ(fields_of(from_ibv(attr, ~0)),
            fmt::format("state=3 access=4 pkey=5 port=2 qkey=287454020 mtu=5 timeout=14 retry=6 rnr=7 rq_psn=11259375 "
                        "reads=16 min_rnr=12 sq_psn=1193046 answers=8 mig=1 dest=1911 ah({})",
                        global_fields));
  ibv_qp_attr draining{};
  draining.sq_draining = 1;
  EXPECT_EQ(fields_of(from_ibv(draining, 0)), "draining=1");
}

TEST(NicVerbs, StatesAreThoseOfLibibverbsAndAnyOtherIsAnError) {
  for (int state = IBV_QPS_RESET; state <= IBV_QPS_ERR; ++state)
    EXPECT_EQ(static_cast<int>(from_ibv(static_cast<ibv_qp_state>(state))), state);
  EXPECT_EQ(from_ibv(IBV_QPS_UNKNOWN), QpState::err);
}

TEST(NicVerbs, TypesAndOperationsAreThoseOfLibibverbs) {
  EXPECT_EQ(to_ibv(QpType::rc), IBV_QPT_RC);
  EXPECT_EQ(to_ibv(QpType::uc), IBV_QPT_UC);
  EXPECT_EQ(to_ibv(QpType::ud), IBV_QPT_UD);
  EXPECT_EQ(to_ibv(QpType::xrc_ini), IBV_QPT_XRC_SEND);
  EXPECT_EQ(to_ibv(QpType::xrc_tgt), IBV_QPT_XRC_RECV);
  EXPECT_EQ(to_ibv(Access::local_write | Access::remote_atomic), IBV_ACCESS_LOCAL_WRITE + IBV_ACCESS_REMOTE_ATOMIC);
  using Opcode = SendWr::Opcode;
  const std::vector<std::pair<Opcode, WcOpcode>> operations = {
      {Opcode::rdma_write, WcOpcode::rdma_write},
      {Opcode::rdma_write_with_imm, WcOpcode::rdma_write},
      {Opcode::send, WcOpcode::send},
      {Opcode::send_with_imm, WcOpcode::send},
      {Opcode::rdma_read, WcOpcode::rdma_read},
      {Opcode::atomic_cmp_and_swp, WcOpcode::comp_swap},
      {Opcode::atomic_fetch_and_add, WcOpcode::fetch_add},
      {Opcode::send_with_inv, WcOpcode::send},
      {Opcode::masked_atomic_cmp_and_swp, WcOpcode::comp_swap},
      {Opcode::masked_atomic_fetch_and_add, WcOpcode::fetch_add},
  };
  for (const auto& [operation, completion] : operations) {
    EXPECT_EQ(completes_as(operation), completion) << static_cast<int>(operation);
    const auto opcode = to_ibv(operation);
    if (operation == Opcode::masked_atomic_cmp_and_swp || operation == Opcode::masked_atomic_fetch_and_add)
      EXPECT_EQ(opcode.error(), Errc::unsupported);
    else
      EXPECT_EQ(static_cast<int>(*opcode), static_cast<int>(operation));
  }
}

TEST(NicVerbs, EachErrnoHasItsMeaningWithEitherSign) {
  const std::vector<std::pair<int, Errc>> meanings = {
      {EINVAL, Errc::invalid_argument},
      {ENOMEM, Errc::no_space},
      {ENOSPC, Errc::no_space},
      {EPERM, Errc::not_permitted},
      {EACCES, Errc::not_permitted},
      {EOPNOTSUPP, Errc::unsupported},
      {ENOSYS, Errc::unsupported},
      {EBUSY, Errc::wrong_state},
      {ENODEV, Errc::unreachable},
      {EHOSTUNREACH, Errc::unreachable},
      {ENETUNREACH, Errc::unreachable},
      {ETIMEDOUT, Errc::timed_out},
      {EADDRINUSE, Errc::address_in_use},
      {EADDRNOTAVAIL, Errc::bad_address},
      {EIO, Errc::io},
      {0, Errc::io},
  };
  for (const auto& [number, meaning] : meanings)
    for (const int given : {number, -number}) {
      const auto why = refused(given, "a call: errno {a}");
      EXPECT_EQ(why.value(), meaning) << given;
      EXPECT_EQ(why.value().sentence(), fmt::format("a call: errno {}", number));
    }
}

}  // namespace
}  // namespace parley::verbs
#endif

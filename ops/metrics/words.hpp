// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The possible values of each label. Everything else is counted as "other", so that neither a peer nor a new event can
// increase the number of time series.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>

namespace parley::ops {

/// A name in the trace and the corresponding label.
struct LabelName {
  std::string_view traced, label;
};

template <std::size_t N>
using LabelNames = std::array<LabelName, N>;

inline constexpr std::string_view other_word = "other";

/// Counters by one label.
template <const auto& words>
class CountBy {
 public:
  static constexpr std::size_t size = words.size() + 1;

  static std::size_t index(std::string_view traced) {
    std::size_t at = 0;
    while (at < words.size() && words[at].traced != traced) ++at;
    return at;
  }
  static std::string_view label(std::size_t at) { return at < words.size() ? words[at].label : other_word; }

  std::uint64_t& operator[](std::size_t at) { return counts_[at]; }
  std::uint64_t operator[](std::size_t at) const { return counts_[at]; }

 private:
  std::array<std::uint64_t, size> counts_{};
};

/// Messages of MPA, and of the InfiniBand CM as the kernel's events imply them.
inline constexpr LabelNames<15> message_words{{{"Request", "mpa_request"},
                                               {"Reply", "mpa_reply"},
                                               {"Rtr", "mpa_rtr"},
                                               {"send", "rtr_send"},
                                               {"write", "rtr_write"},
                                               {"read", "rtr_read"},
                                               {"Terminate", "terminate"},
                                               {"REQ", "ib_req"},
                                               {"REP", "ib_rep"},
                                               {"RTU", "ib_rtu"},
                                               {"REJ", "ib_rej"},
                                               {"DREQ", "ib_dreq"},
                                               {"DREP", "ib_drep"},
                                               {"SIDR_REQ", "ib_sidr_req"},
                                               {"SIDR_REP", "ib_sidr_rep"}}};

/// The opcodes' texts in wire/rdmap (RFC 5040 §4.3, RFC 7306).
extern const LabelNames<12> opcode_words;

/// The steps of a set-up, and the steps after it.
inline constexpr LabelNames<13> step_words{{{"resolve", "resolve"},
                                            {"resolve_addr", "resolve_addr"},
                                            {"resolve_route", "resolve_route"},
                                            {"wait_ready", "wait_ready"},
                                            {"tcp_connect", "tcp_connect"},
                                            {"send_request", "send_request"},
                                            {"wait_request", "wait_request"},
                                            {"ulp_decision", "ulp_decision"},
                                            {"wait_reply", "wait_reply"},
                                            {"send_rtr", "send_rtr"},
                                            {"wait_rtr", "wait_rtr"},
                                            {"wait_first_fpdu", "wait_first_fpdu"},
                                            {"data", "data"}}};

inline constexpr LabelNames<14> timer_words{{{"tcp_connect", "tcp_connect"},
                                             {"resolve_addr", "resolve_addr"},
                                             {"resolve_route", "resolve_route"},
                                             {"wait_ready", "wait_ready"},
                                             {"settle", "settle"},
                                             {"back_off", "back_off"},
                                             {"wait_request", "wait_request"},
                                             {"ulp_decision", "ulp_decision"},
                                             {"wait_reply", "wait_reply"},
                                             {"wait_rtr_frame", "wait_rtr_frame"},
                                             {"wait_first_fpdu", "wait_first_fpdu"},
                                             {"hold", "hold"},
                                             {"half_close", "half_close"},
                                             {"linger", "linger"}}};

/// Why a connection manager, not a program, rejected a connection: a REJ's reason (IBA 1.x §12.6.7.2).
inline constexpr LabelNames<16> rej_words{{{"no_qp", "no_qp"},
                                           {"no_eec", "no_eec"},
                                           {"no_resources", "no_resources"},
                                           {"timeout", "timeout"},
                                           {"unsupported_request", "unsupported_request"},
                                           {"invalid_comm_id", "invalid_comm_id"},
                                           {"invalid_service_id", "invalid_service_id"},
                                           {"invalid_transport_type", "invalid_transport_type"},
                                           {"stale_connection", "stale_connection"},
                                           {"invalid_gid", "invalid_gid"},
                                           {"invalid_lid", "invalid_lid"},
                                           {"redirect", "redirect"},
                                           {"port_redirect", "port_redirect"},
                                           {"invalid_mtu", "invalid_mtu"},
                                           {"insufficient_resources", "insufficient_resources"},
                                           {"duplicate_comm_id", "duplicate_comm_id"}}};

/// Messages of a negotiation; raw: a message of a variant without headers.
inline constexpr LabelNames<5> neg_message_words{
    {{"Hello", "hello"}, {"Welcome", "welcome"}, {"Turn", "turn"}, {"Abort", "abort"}, {"raw", "raw"}}};
inline constexpr LabelNames<4> neg_stage_words{
    {{"none", "none"}, {"info", "info"}, {"ready", "ready"}, {"done", "done"}}};
/// Why a negotiation failed: the names in include/parley/wire/neg.h.
extern const LabelNames<15> problem_words;

/// The exhausted limit when a peer was turned away.
inline constexpr LabelNames<4> limit_words{{{"pending_max", "pending_max"},
                                            {"endpoints_max", "endpoints_max"},
                                            {"streams_max", "streams_max"},
                                            {"sessions_max", "sessions_max"}}};

/// The name of an Errc, "timed_out"; other_word for codes of other categories.
std::string_view reason_of(const std::error_code& code);
extern const LabelNames<28> reason_words;

}  // namespace parley::ops

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/ib/quirks.hpp"

namespace parley::wire::ib {
namespace {

using enum Departure;

constexpr DepartureFacts facts[] = {
    {forgets_in_timewait, "forgets-in-timewait", "IBA §12.9",
     "forgets IDs and queue pair of a connection when its timewait begins: a late REQ is a new request",
     "late-req-in-timewait in docs/interop/linux-6.1-rxe.md; cm_enter_timewait() in drivers/infiniband/core/cm.c"},
    {leaves_rep_to_timer, "leaves-rep-to-timer", "",
     "does not answer a retransmitted REQ while its REP is unanswered: its timer sends the REP",
     "duplicate-req in docs/interop/linux-6.1-rxe.md; cm_dup_req_handler() in drivers/infiniband/core/cm.c"},
    {drops_unknown_rep, "drops-unknown-rep", "IBA §12.6.7.2", "drops an unexpected REP, without a REJ",
     "rep-for-nobody in docs/interop/linux-6.1-rxe.md; cm_rep_handler() in drivers/infiniband/core/cm.c"},
    {drops_class_version, "drops-class-version", "IBA §12.6.7.2",
     "drops messages of another class version of the CM, without a REJ",
     "class-version-1 and class-version-3 in docs/interop/linux-6.1-rxe.md: the MAD layer has no agent for them"},
    {rejects_service_type, "rejects-service-type", "IBA §12.6.7.2",
     "rejects an unknown transport service type with the consumer's code (28), not with its own (9)",
     "service-type-rd and service-type-extended-5 in docs/interop/linux-6.1-rxe.md"},
    {takes_path_mtu, "takes-path-mtu", "IBA §12.6.7.2",
     "does not check the path MTU of a REQ: accepts 0, and values above 5 without an error",
     "path-mtu-0 and path-mtu-7 in docs/interop/linux-6.1-rxe.md"},
    {drops_when_full, "drops-when-full", "", "drops a REQ for which its listener's backlog has no room",
     "cm_destroy_id() with ENOMEM in drivers/infiniband/core/cm.c: the peer is to try again"},
    {gives_up_in_silence, "gives-up-in-silence", "IBA §12.9",
     "sends nothing when it gives up a REQ or REP, until its program destroys the ID",
     "rep-retries-are-counted in docs/interop/linux-6.1-rxe.md; cm_process_send_error() in "
     "drivers/infiniband/core/cm.c"},
    {forgets_rejected, "forgets-rejected", "", "treats a retransmitted REQ that it rejected as a new request",
     "cm_reset_to_idle() in drivers/infiniband/core/cm.c, which is called behind each REJ"},
    {counts_milliseconds, "counts-milliseconds", "IBA §12.7.9",
     "rounds the times of the CM to powers of two in milliseconds: 4,096 ms where 4,295 ms are meant",
     "rxe61_unreachable.pcap; cm_convert_to_ms() in drivers/infiniband/core/cm.c"},
    {drops_lap, "drops-lap", "IBA §12.8.2", "drops a LAP over RoCE, or for an unknown connection, without an APR",
     "cm_lap_handler() in drivers/infiniband/core/cm.c; the cases lap-* in docs/interop/linux-6.1-rxe.md"},
    {takes_any_source, "takes-any-source", "", "accepts a message by its communication IDs, from any address",
     "cm_acquire_id() in drivers/infiniband/core/cm.c looks at the IDs alone"},
    {takes_short_mad, "takes-short-mad", "IBA §13.4.2", "accepts MADs of less than 256 octets, and padded ones",
     "mad-of-200-octets and gsi-pad in docs/interop/linux-6.1-rxe.md"},
    {looks_read_up_again, "looks-read-up-again", "IBA §9.7.5.1.4",
     "looks the key of a Read of no octets up when the Read is repeated, and refuses it then",
     "duplicate-read in docs/interop/linux-6.1-rxe.md; rxe_recheck_mr() in drivers/infiniband/sw/rxe/rxe_resp.c"},
    {takes_short_first, "takes-short-first", "IBA §9.7.4.1",
     "accepts a First or Middle packet of a Send that is shorter than the path MTU",
     "first-shorter-than-mtu in docs/interop/linux-6.1-rxe.md; check_length() in drivers/infiniband/sw/rxe/rxe_resp.c"},
    {retries_for_ever, "retries-for-ever", "IBA §9.9.2.1.2", "treats the retry count 7 as infinite",
     "rxe_completer() in drivers/infiniband/sw/rxe/rxe_comp.c"},
    {slow_rnr_timer, "slow-rnr-timer", "", "asks for 655.36 ms in each RNR NAK (code 0)",
     "rxe61_errors_loss.pcap; cm_init_qp_rtr_attr() in drivers/infiniband/core/cm.c"},
    {acks_one_by_one, "acks-one-by-one", "", "sends an ACK of its own for each request that asks for one",
     "rxe61_data.pcap; acknowledge() in drivers/infiniband/sw/rxe/rxe_resp.c"},
    {sets_reserved_bit, "sets-reserved-bit", "IBA §9.2",
     "sets bit 4 of the octet of FECN and BECN in the BTH of its requests, which is reserved",
     "48_hns_reserved_bit.pcap: all of 40 requests"},
};

constexpr Quirk none{};

constexpr Quirk ib_cm{
    .name = "ib_cm",
    .summary =
        "The InfiniBand CM of Linux, above whatever RNIC: no memory of ended connections, no answer to what it does "
        "not know, timers of its own.",
    .evidence = "measured on Linux 6.1.192 (docs/interop/linux-6.1-rxe.md) and its source",
    .departures = {forgets_in_timewait, leaves_rep_to_timer, drops_unknown_rep, drops_class_version,
                   rejects_service_type, takes_path_mtu, drops_when_full, gives_up_in_silence, forgets_rejected,
                   counts_milliseconds, drops_lap, takes_any_source, slow_rnr_timer},
    .spec_timers = true,
    .ack_timeout = 19,
};

constexpr Quirk under_rxe(Quirk q) {
  q.name = "rxe";
  q.summary =
      "Linux's software RoCE (rxe) under its CM: as ib_cm, with loose checks of lengths and an ACK for each request.";
  q.departures.add({takes_short_mad, looks_read_up_again, takes_short_first, retries_for_ever, acks_one_by_one});
  return q;
}

constexpr Quirk under_hns(Quirk q) {
  q.name = "hns";
  q.summary = "The RoCE engine of HiSilicon (hns) under Linux's CM: as ib_cm, with a reserved bit set in its requests.";
  q.evidence = "a capture of its requests; its CM is that of ib_cm";
  q.departures.add({sets_reserved_bit});
  return q;
}

constexpr Quirk table[] = {ib_cm, under_rxe(ib_cm), under_hns(ib_cm)};

}  // namespace

std::span<const DepartureFacts> all_departures() { return facts; }

const DepartureFacts& facts_of(Departure what) { return facts[static_cast<std::size_t>(what)]; }

Result<const Quirk*> find_quirk(std::string_view name) {
  if (name.empty()) return &none;
  for (const Quirk& quirk : table)
    if (quirk.name == name) return &quirk;
  return fail(Errc::invalid_argument,
              "no quirk of RoCE has this name; wire/ib/quirks.hpp and `parley quirks` list them");
}

std::span<const Quirk> all_quirks() { return table; }

}  // namespace parley::wire::ib

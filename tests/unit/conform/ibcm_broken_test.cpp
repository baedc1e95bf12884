// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Peers that break a rule of InfiniBand's CM or transport, made of Parley's own by what stands before it: each case fails for
// one of them at least, and what says nothing of a peer is not taken for an answer.
#include <set>

#include "ibcm_mangle.hpp"
#include "ibcm_watch.hpp"

namespace parley::conform::ibcm {
namespace {

using namespace kit;
using wire::ib::CmDrep;
using wire::ib::CmDreq;
using wire::ib::CmMra;
using wire::ib::CmRej;
using wire::ib::CmRep;
using wire::ib::CmReq;
using wire::ib::CmRtu;
using wire::ib::CmSidrRep;
using wire::ib::CmSidrReq;
using wire::ib::SidrStatus;

/// After so many messages of the CM came in: the plain REQ before the first case is none of theirs.
Stage::Mangle later(Stage::Mangle mangle) {
  auto came = std::make_shared<unsigned>(0);
  return [mangle, came](Stage& stage, const PacketPath& path, Bytes& octets) {
    // REQ, RTU, DREQ
    return ++*came <= 3 || mangle(stage, path, octets);
  };
}

CmRej rej(std::uint32_t id, CmReject reason, CmSubject about = CmSubject::req) {
  return {.remote_comm_id = id, .about = about, .reason = reason};
}

/// What a peer does that talks where it should be silent.
std::vector<Broken> talkers() {
  std::vector<Broken> out;
  out.push_back({"rejects all that is not a REQ, and each faulty one",
                 later([](Stage& stage, const PacketPath& path, Bytes& octets) {
                   const Seen seen = look(octets);
                   const bool right = seen.message && seen.packet.bth.tver == 0 && seen.packet.bth.p_key == 0xFFFF &&
                                      seen.packet.deth.q_key == PARLEY_IB_GSI_Q_KEY && !path.bad_icrc;
                   if (seen.id != 0 && !(right && carries<CmReq>(octets)))
                     stage.say(rej(seen.id, CmReject::unsupported_request), seen.transaction_id);
                   return true;
                 }),
                 {}});
  out.push_back({"acknowledges whatever comes, under an odd MSN",
                 later([](Stage& stage, const PacketPath&, Bytes& octets) {
                   static std::uint32_t qpn = 0;
                   const Seen seen = look(octets);
                   if (seen.message)
                     if (const auto* req = std::get_if<CmReq>(&seen.message->body)) qpn = req->local_qpn;
                   if (!seen.message && seen.packet.bth.dest_qpn != PARLEY_IB_GSI_QPN)
                     stage.say_ack(qpn, seen.packet.bth.psn, PARLEY_IB_CREDITS_NONE, 77);
                   return true;
                 }),
                 {}});
  out.push_back({"answers a datagram that is too short or to nobody",
                 later([](Stage& stage, const PacketPath&, Bytes& octets) {
                   const Seen seen = look(octets);
                   const auto* rep = seen.message ? std::get_if<CmSidrRep>(&seen.message->body) : nullptr;
                   if (rep != nullptr) stage.say(rej(rep->request_id, CmReject::unsupported_request), 1);
                   if (seen.cm() && octets.size() < 60) stage.say(rej(0, CmReject::unsupported_request), 1);
                   return true;
                 }),
                 {}});
  return out;
}

std::vector<Broken> of_set_up() {
  std::vector<Broken> out;
  out.push_back({"communication ID 0", {}, changes<CmRep>([](CmRep& m, CmMessage&) { m.local_comm_id = 0; })});
  out.push_back({"REPs that differ", {}, changes<CmRep>([](CmRep& m, CmMessage&) {
                   static std::uint32_t psn = 0;
                   m.starting_psn = ++psn;
                 })});
  out.push_back({"another TransactionID", {}, [](Stage&, const PacketPath&, Bytes& octets) {
                   Seen seen = look(octets);
                   if (!seen.message) return true;
                   seen.message->transaction_id ^= 1;
                   seen.message->emit(MutBytes(octets).last(PARLEY_IB_MAD_LEN));
                   return true;
                 }});
  out.push_back({"a status in its MADs", {}, [](Stage&, const PacketPath&, Bytes& octets) {
                   if (!carries<CmRep>(octets)) return true;
                   MutBytes mad = MutBytes(octets).last(PARLEY_IB_MAD_LEN);
                   auto header = *wire::ib::MadHeader::parse(mad);
                   header.status = 0x1C;
                   header.emit(mad);
                   return true;
                 }});
  out.push_back({"another Q_Key", {}, [](Stage&, const PacketPath&, Bytes& octets) {
                   Writer w(MutBytes(octets).subspan(12));
                   if (look(octets).cm()) w.be32(0x1234);
                   return true;
                 }});
  out.push_back(
      {"more Reads than asked for", {}, changes<CmRep>([](CmRep& m, CmMessage&) { m.initiator_depth = 200; })});
  out.push_back({"each REP once", {}, [](Stage&, const PacketPath&, Bytes& octets) {
                   static std::set<std::uint32_t> seen_ids;
                   const Seen seen = look(octets);
                   return !carries<CmRep>(octets) ||
                          seen_ids.insert(std::get<CmRep>(seen.message->body).remote_comm_id).second;
                 }});
  out.push_back({"never hears an RTU, MRA or REJ",
                 [](Stage&, const PacketPath&, Bytes& octets) {
                   return !carries<CmRtu>(octets) && !carries<CmMra>(octets) && !carries<CmRej>(octets);
                 },
                 {}});
  return out;
}

std::vector<Broken> of_asking() {
  std::vector<Broken> out;
  out.push_back({"asks without an end", changes<CmReq>([](CmReq& m, CmMessage&) { m.max_cm_retries = 15; }), {}});
  out.push_back({"knows one plain REQ",
                 [](Stage& stage, const PacketPath&, Bytes& octets) {
                   const Seen seen = look(octets);
                   if (!seen.message) return true;
                   const auto* req = std::get_if<CmReq>(&seen.message->body);
                   if (req == nullptr) return true;
                   Bytes body(octets.end() - PARLEY_IBCM_LEN, octets.end());
                   const bool plain = req->initiator_depth == 1 && req->retry_count == 2 && req->path_mtu == 3 &&
                                      body[24] == 0 && req->private_data.back() == 0 && req->starting_psn != 0xFFFFFF &&
                                      !seen.packet.bth.mig_req;
                   if (!plain) stage.say(rej(req->local_comm_id, CmReject::no_qp), seen.transaction_id);
                   return plain;
                 },
                 {}});
  out.push_back({"gives up at the first odd message",
                 later([](Stage& stage, const PacketPath&, Bytes& octets) {
                   static std::set<std::uint32_t> ids;
                   const Seen seen = look(octets);
                   if (!seen.message) return true;
                   if (const auto* rtu = std::get_if<CmRtu>(&seen.message->body);
                       rtu != nullptr && rtu->remote_comm_id == 0)
                     ids.insert(rtu->local_comm_id);
                   if (ids.contains(seen.id) && carries<CmReq>(octets)) {
                     stage.say(rej(seen.id, CmReject::unsupported_request), seen.transaction_id);
                     return false;
                   }
                   return true;
                 }),
                 {}});
  return out;
}

std::vector<Broken> of_rejects() {
  std::vector<Broken> out;
  out.push_back({"its own reasons", {}, changes<CmRej>([](CmRej& m, CmMessage&) {
                   m.reason = CmReject::no_eec;
                   m.info_length = 127;
                 })});
  out.push_back(
      {"REJs of other messages", {}, changes<CmRej>([](CmRej& m, CmMessage&) { m.about = CmSubject::other; })});
  out.push_back({"no REJ at all", {}, drops<CmRej>()});
  out.push_back({"rejects what it may take",
                 [](Stage& stage, const PacketPath&, Bytes& octets) {
                   const Seen seen = look(octets);
                   const auto* req = seen.message ? std::get_if<CmReq>(&seen.message->body) : nullptr;
                   if (req == nullptr || req->path_mtu != 5) return true;
                   stage.say(rej(req->local_comm_id, CmReject::no_qp), seen.transaction_id);
                   return false;
                 },
                 {}});
  return out;
}

std::vector<Broken> of_endings() {
  std::vector<Broken> out;
  out.push_back({"no DREP", {}, drops<CmDrep>()});
  out.push_back({"DREPs of others", {}, changes<CmDrep>([](CmDrep& m, CmMessage&) { m.local_comm_id ^= 1; })});
  out.push_back({"one DREP", {}, [](Stage&, const PacketPath&, Bytes& octets) {
                   static std::set<std::uint32_t> ids;
                   const Seen seen = look(octets);
                   return !carries<CmDrep>(octets) ||
                          ids.insert(std::get<CmDrep>(seen.message->body).remote_comm_id).second;
                 }});
  out.push_back({"ends at any DREQ or DREP",
                 [](Stage& stage, const PacketPath&, Bytes& octets) {
                   const Seen seen = look(octets);
                   if (!seen.message) return true;
                   const auto* dreq = std::get_if<CmDreq>(&seen.message->body);
                   const auto* drep = std::get_if<CmDrep>(&seen.message->body);
                   if (dreq != nullptr) stage.say(rej(dreq->local_comm_id, CmReject::invalid_comm_id), 1);
                   if (drep != nullptr) stage.say(rej(drep->local_comm_id, CmReject::invalid_comm_id), 1);
                   return true;
                 },
                 {}});
  out.push_back({"no DREQ of its own", {}, drops<CmDreq>()});
  out.push_back({"a REP to each REQ",
                 [](Stage& stage, const PacketPath&, Bytes& octets) {
                   static std::map<std::uint32_t, unsigned> ids;
                   const Seen seen = look(octets);
                   const auto* req = seen.message ? std::get_if<CmReq>(&seen.message->body) : nullptr;
                   if (req == nullptr || ++ids[req->local_comm_id] < 2) return true;
                   stage.say(CmRep{.local_comm_id = 0x77, .remote_comm_id = req->local_comm_id, .local_qpn = 0x99},
                             seen.transaction_id);
                   return false;
                 },
                 {}});
  out.push_back({"a second REQ rejected for good",
                 [](Stage& stage, const PacketPath&, Bytes& octets) {
                   static std::set<std::uint32_t> ids;
                   const Seen seen = look(octets);
                   const auto* req = seen.message ? std::get_if<CmReq>(&seen.message->body) : nullptr;
                   if (req == nullptr || ids.insert(req->local_comm_id).second) return true;
                   stage.say(rej(req->local_comm_id, CmReject::no_qp), seen.transaction_id);
                   return false;
                 },
                 {}});
  out.push_back({"remembers those that ended",
                 [](Stage& stage, const PacketPath&, Bytes& octets) {
                   static std::set<std::uint32_t> ids;
                   const Seen seen = look(octets);
                   if (carries<CmDreq>(octets)) ids.insert(seen.id);
                   if (carries<CmRtu>(octets) && ids.contains(seen.id))
                     stage.say(rej(seen.id, CmReject::invalid_comm_id), 1);
                   return true;
                 },
                 {}});
  out.push_back({"one number for all", {}, changes<CmRep>([](CmRep& m, CmMessage&) { m.local_qpn = 0x99; })});
  return out;
}

std::vector<Broken> of_sidr() {
  std::vector<Broken> out;
  out.push_back({"serves all", {}, changes<CmSidrRep>([](CmSidrRep& m, CmMessage&) {
                   m.status = SidrStatus::valid;
                   m.service_id = 0;
                 })});
  out.push_back({"changes its mind", {}, changes<CmSidrRep>([](CmSidrRep& m, CmMessage&) {
                   static unsigned n = 0;
                   m.status = n++ % 2 == 0 ? SidrStatus::no_qp : SidrStatus::rejected;
                 })});
  out.push_back({"talks to a SIDR_REP",
                 [](Stage& stage, const PacketPath&, Bytes& octets) {
                   const Seen seen = look(octets);
                   const auto* rep = seen.message ? std::get_if<CmSidrRep>(&seen.message->body) : nullptr;
                   if (rep != nullptr) stage.say(CmSidrRep{.request_id = rep->request_id}, 1);
                   return true;
                 },
                 {}});
  return out;
}

/// Each answer on the queue pair with another syndrome, or PSN.
Stage::Mangle answers(std::function<void(wire::ib::Packet&)> how) {
  return [how](Stage&, const PacketPath&, Bytes& octets) {
    Seen seen = look(octets);
    if (seen.cm() || !wire::ib::rule_of(seen.packet.bth.opcode).response) return true;
    how(seen.packet);
    Bytes changed(seen.packet.size());
    seen.packet.emit(changed);
    changed.resize(changed.size() - PARLEY_IB_ICRC_LEN);
    octets = std::move(changed);
    return true;
  };
}

/// What a peer does with P_Keys, gaps and duplicates.
std::vector<Broken> of_answers() {
  std::vector<Broken> out;
  out.push_back({"NAKs all", {}, answers([](wire::ib::Packet& p) { p.aeth.syndrome = 0x63; })});
  out.push_back({"ACKs all", {}, answers([](wire::ib::Packet& p) { p.aeth.syndrome = 0x1F; })});
  out.push_back({"PSNs of others", {}, answers([](wire::ib::Packet& p) { p.bth.psn = (p.bth.psn + 5) & 0xFFFFFF; })});
  out.push_back({"a P_Key of its own", {}, answers([](wire::ib::Packet& p) { p.bth.p_key = 0x7FFF; })});
  out.push_back({"the P_Key of another partition", {}, answers([](wire::ib::Packet& p) { p.bth.p_key = 0x9234; })});
  auto nak = std::make_shared<Bytes>();
  out.push_back({"the NAK of a gap for each packet behind it",
                 [nak](Stage& stage, const PacketPath&, Bytes& octets) {
                   const Seen seen = look(octets);
                   if (seen.cm() || nak->empty()) return true;
                   if (look(*nak).packet.bth.psn == seen.packet.bth.psn) nak->clear();
                   if (!nak->empty()) stage.say(*nak);
                   return true;
                 },
                 [nak](Stage&, const PacketPath&, Bytes& octets) {
                   const Seen seen = look(octets);
                   if (!seen.cm() && seen.packet.aeth.syndrome == PARLEY_IB_SYNDROME_NAK) *nak = octets;
                   return true;
                 }});
  out.push_back({"no duplicates", {}, [](Stage&, const PacketPath&, Bytes& octets) {
                   static std::set<std::pair<std::uint32_t, std::uint32_t>> told;
                   const Seen seen = look(octets);
                   return seen.cm() || !wire::ib::rule_of(seen.packet.bth.opcode).response ||
                          told.insert({seen.packet.bth.dest_qpn, seen.packet.bth.psn}).second;
                 }});
  return out;
}

std::vector<Broken> of_requests() {
  std::vector<Broken> out;
  out.push_back({"a NAK for each gap, and for what is not asked",
                 later([](Stage& stage, const PacketPath&, Bytes& octets) {
                   static std::map<std::uint32_t, std::uint32_t> next;
                   static std::uint32_t qpn = 0;
                   const Seen seen = look(octets);
                   if (seen.message)
                     if (const auto* req = std::get_if<CmReq>(&seen.message->body)) qpn = req->local_qpn;
                   if (!seen.cm() && !next.contains(qpn)) next[qpn] = seen.packet.bth.psn;
                   const bool ghost = !seen.cm() && wire::ib::rule_of(seen.packet.bth.opcode).response;
                   if (!seen.cm() && (ghost || seen.packet.bth.psn != next[qpn]))
                     stage.say_ack(qpn, next[qpn], PARLEY_IB_SYNDROME_NAK, 0);
                   return true;
                 }),
                 {}});
  out.push_back({"forgets a gap that was filled", {}, [](Stage&, const PacketPath&, Bytes& octets) {
                   static std::map<std::uint32_t, unsigned> naks;
                   const Seen seen = look(octets);
                   const bool nak = !seen.cm() && seen.packet.aeth.syndrome == PARLEY_IB_SYNDROME_NAK;
                   return !nak || ++naks[seen.packet.bth.dest_qpn] < 2;
                 }});
  out.push_back({"Reads of its own, from elsewhere", {}, [](Stage&, const PacketPath&, Bytes& octets) {
                   Seen seen = look(octets);
                   if (seen.packet.bth.opcode != 0x0C || seen.cm()) return true;
                   seen.packet.bth.psn = 3;
                   put_back(seen, octets);
                   return true;
                 }});
  auto refused = std::make_shared<std::uint32_t>(0);
  out.push_back({"goes on after a NAK",
                 [refused](Stage& stage, const PacketPath&, Bytes& octets) {
                   const Seen seen = look(octets);
                   if (!seen.cm() && *refused != 0)
                     stage.say_ack(*refused, seen.packet.bth.psn, PARLEY_IB_CREDITS_NONE, 1);
                   return true;
                 },
                 [refused](Stage&, const PacketPath&, Bytes& octets) {
                   const Seen seen = look(octets);
                   if (!seen.cm()) *refused = seen.packet.aeth.syndrome == 0x62 ? seen.packet.bth.dest_qpn : 0;
                   return true;
                 }});
  out.push_back({"wrong for reserved bits",
                 [](Stage& stage, const PacketPath&, Bytes& octets) {
                   static std::uint32_t qpn = 0;
                   const Seen seen = look(octets);
                   if (seen.message)
                     if (const auto* req = std::get_if<CmReq>(&seen.message->body)) qpn = req->local_qpn;
                   if (seen.cm() || !seen.packet.bth.mig_req) return true;
                   stage.say_ack(qpn, seen.packet.bth.psn, 0x61, 0);
                   return false;
                 },
                 {}});
  return out;
}

/// A LAP is not answered; an APR is.
std::vector<Broken> of_paths() { return {{"no APRs", {}, drops<wire::ib::CmApr>()}}; }

std::vector<Broken> all_broken() {
  std::vector<Broken> out;
  for (auto part : {talkers(), of_set_up(), of_asking(), of_rejects(), of_endings(), of_sidr(), of_answers(),
                    of_requests(), of_paths()})
    for (Broken& broken : part) out.push_back(std::move(broken));
  return out;
}

// What conform fails, check fails: docs/pcap-check.md lists which rule shows it in a capture, or why none can.
TEST(ConformIbcmBroken, EachCaseFailsForAPeerThatBreaksItAndACaptureShowsIt) {
  std::set<std::string_view> failed;
  std::map<std::string_view, std::set<std::string_view>> rules;
  std::set<std::string> silent;
  for (const Duration after : {Duration(5us), Duration(25ms)})
    for (const Broken& broken : all_broken()) {
      if (silent.contains(broken.name)) continue;  // the time is that of what it says
      Stage stage({.receives = 4, .receive_size = 4096, .rping = true});
      CaseWatcher watcher(stage);
      stage.in = broken.in;
      stage.out = broken.out;
      stage.say_after = after;
      stage.settings.seed += static_cast<std::uint64_t>(after.count());  // its IDs are not those of the run before
      stage.settings.refused_max = 1000;
      stage.settings.connect = stage.settings.reply = 1s;
      const auto results = stage.run();
      EXPECT_GT(add_failed(results, failed), 0U) << broken.name << " breaks nothing";
      watcher.add_failed(results, rules);
      if (stage.said == 0) silent.insert(broken.name);
    }
  for (const Case* c : cases()) EXPECT_TRUE(failed.contains(c->what.name)) << c->what.name << " never fails";
  expect_documented(Iut::responder, rules);
}

/// What a case finds of a peer whose packets that `which` chooses are changed, octet by octet.
std::string finding_of(std::string_view name, bool (*which)(const Seen& seen), std::function<void(Bytes&)> how) {
  Stage stage;
  stage.settings.connect = stage.settings.reply = 1s;
  stage.out = [which, how = std::move(how)](Stage&, const PacketPath&, Bytes& octets) {
    if (which(look(octets))) how(octets);
    return true;
  };
  const auto results = stage.run([name](const Case& c) { return c.what.name == name; });
  EXPECT_EQ(results.size(), 1U);
  if (results.empty()) return {};
  return fmt::format("{}: {}", to_string(results[0].finding.verdict), results[0].finding.observed);
}

/// Of its answers on the queue pair.
std::string finding_of(std::string_view name, std::function<void(Bytes&)> how) {
  return finding_of(
      name, [](const Seen& seen) { return !seen.cm() && wire::ib::rule_of(seen.packet.bth.opcode).response; },
      std::move(how));
}
/// Of its messages of the kind M; `how` is given the MAD.
template <class M>
std::string finding_of_mad(std::string_view name, std::function<void(MutBytes)> how) {
  return finding_of(
      name, [](const Seen& seen) { return seen.message && std::get_if<M>(&seen.message->body) != nullptr; },
      [how = std::move(how)](Bytes& octets) { how(MutBytes(octets).last(PARLEY_IB_MAD_LEN)); });
}

// IBA §13.4.2, §12.6.8. The message begins behind the MAD header.
TEST(ConformIbcmBroken, EachPartOfARepIsLookedAt) {
  const auto with = [](std::size_t at, std::uint8_t bits) {
    return finding_of_mad<CmRep>("rep-mad-header",
                                 [=](MutBytes mad) { mad[at] = static_cast<std::uint8_t>(mad[at] | bits); });
  };
  EXPECT_EQ(with(0, 0), "pass: as it should be");
  EXPECT_EQ(with(23, 1), "fail: its attribute modifier is 00000001 (IBA §12.6.1)");
  EXPECT_EQ(with(18, 0x80), "fail: its reserved field is 8000");
  EXPECT_EQ(with(24 + 27, 0x01), "fail: reserved bits 01 of octet 27 of its REP are set (IBA §12.6)");
}

// A REP that cannot be read is a fault of the peer's, and no lack of an answer.
TEST(ConformIbcmBroken, ARepOfAnotherVersionOrMethodFails) {
  EXPECT_EQ(finding_of_mad<CmRep>("plain-set-up", [](MutBytes mad) { mad[2] = 3; }),
            "fail: a MAD that is not a message of the CM: the MAD has base version 1 and class version 3, not 1 and 2");
  EXPECT_EQ(finding_of_mad<CmRep>("plain-set-up", [](MutBytes mad) { mad[3] = 1; }),
            "fail: a MAD that is not a message of the CM: a message of the CM has method 3 (Send), not 1");
}

// IBA §12.6.7.2, reason 26: the additional information is the largest MTU.
TEST(ConformIbcmBroken, ARejectionOfTheMtuNamesOne) {
  const auto with = [](std::uint8_t length, std::uint8_t code) {
    const std::function<void(CmRej&, CmMessage&)> names = [=](CmRej& m, CmMessage&) {
      m.info_length = length;
      m.info[0] = static_cast<std::uint8_t>(code << 4);
    };
    Stage stage;
    stage.out = changes<CmRej>(names);
    const auto results = stage.run([](const Case& c) { return c.what.name == "path-mtu-0"; });
    EXPECT_EQ(results.size(), 1U);
    return results.empty() ? std::string() : results[0].finding.observed;
  };
  const std::string rejected = with(1, 3);
  EXPECT_NE(rejected.find("REJ 26"), std::string::npos) << rejected;
  EXPECT_EQ(with(0, 3), rejected + " that names no MTU");
  EXPECT_EQ(with(1, 0), rejected + " that names no MTU");
  EXPECT_EQ(with(1, 6), rejected + " that names no MTU");
}

// IBA §12.6.7.2: REJ 12 has a GID of 16 octets that the peer accepts.
TEST(ConformIbcmBroken, ARejectionOfTheGidHasItsReasonAndAGid) {
  const auto with = [](CmReject reason, std::uint8_t length) {
    Stage stage;
    stage.out = changes<CmRej>([=](CmRej& m, CmMessage&) {
      m.reason = reason;
      m.info_length = length;
    });
    const auto results = stage.run([](const Case& c) { return c.what.name == "gid-of-another"; });
    EXPECT_EQ(results.size(), 1U);
    return results.empty() ? Verdict::inconclusive : results[0].finding.verdict;
  };
  EXPECT_EQ(with(CmReject::primary_gid, 16), Verdict::pass);
  EXPECT_EQ(with(CmReject::primary_gid, 15), Verdict::fail);
  EXPECT_EQ(with(CmReject::no_qp, 16), Verdict::fail);
}

// IBA §9.2: SE, PadCnt and TVer share the BTH's second octet.
TEST(ConformIbcmBroken, EachPartOfAnAckIsLookedAt) {
  EXPECT_EQ(finding_of("ack-form", [](Bytes&) {}), "pass: as it should be");
  const std::string wrong = "fail: it has a pad, a payload or SE";
  EXPECT_EQ(finding_of("ack-form", [](Bytes& ack) { ack[1] |= 0x80; }), wrong) << "SE";
  EXPECT_EQ(finding_of("ack-form", [](Bytes& ack) { ack[1] |= 0x01; }), wrong) << "TVer";
  EXPECT_EQ(finding_of("ack-form", [](Bytes& ack) { ack.resize(ack.size() + 4); }), wrong) << "a payload";
  EXPECT_EQ(finding_of("ack-form", [](Bytes& ack) { ack[8] |= 0x80; }), "fail: it asks for an acknowledgment itself");
  EXPECT_EQ(finding_of("ack-form", [](Bytes& ack) { ack[12] = 5; }),
            "fail: it has credits (code 5) where none were agreed on");
  EXPECT_EQ(finding_of("ack-form",
                       [](Bytes& ack) {
                         ack[1] |= 3U << 4;
                         ack.resize(ack.size() + 3);
                       }),
            wrong)
      << "a pad";
}

// The last three octets of an AETH are the MSN (IBA §9.5).
TEST(ConformIbcmBroken, TheAckOfSeveralCountsThemAll) {
  const auto count = [](std::uint8_t more) {
    return finding_of("ack-of-several",
                      [more](Bytes& ack) { ack.back() = static_cast<std::uint8_t>(ack.back() + more); });
  };
  EXPECT_EQ(count(0), "pass: an ACK of the last, with MSN 8");
  EXPECT_EQ(count(1), "fail: MSN 9 with the last ACK");
}

TEST(ConformIbcmBroken, NobodyThereIsSaidOnceAndNothingIsRun) {
  Stage stage;
  stage.there = false;
  stage.settings.connect = stage.settings.reply = 1s;
  const auto results = stage.run();
  EXPECT_TRUE(stage.runner->unreachable());
  EXPECT_NE(stage.runner->why().find("Connection refused"), std::string::npos) << stage.runner->why();
  for (const Result& r : results) EXPECT_EQ(r.finding.verdict, Verdict::not_run) << r.what->name;
}

TEST(ConformIbcmBroken, APeerThatRejectsAllIsNotJudged) {
  Stage stage({.rejects = true});
  const auto results = stage.run();
  EXPECT_TRUE(stage.runner->refused());
  EXPECT_NE(stage.runner->why().find("REJ 28"), std::string::npos) << stage.runner->why();
  for (const Result& r : results) EXPECT_EQ(r.finding.verdict, Verdict::not_run) << r.what->name;
}

TEST(ConformIbcmBroken, APeerThatDiesIsGivenUp) {
  Stage stage;
  stage.settings.connect = stage.settings.reply = 1s;
  unsigned seen = 0;
  stage.hooks.result = [&](const Result&) { stage.there = ++seen < 5; };
  const auto results = stage.run();
  EXPECT_TRUE(stage.runner->gave_up());
  EXPECT_EQ(results.back().finding.verdict, Verdict::not_run);
  EXPECT_EQ(results.size(), cases().size());
}

TEST(ConformIbcmBroken, AnInterruptedRunIsWhole) {
  Stage stage;
  unsigned seen = 0;
  stage.hooks.result = [&](const Result&) { ++seen; };
  stage.hooks.stopped = [&] { return seen >= 3; };
  const auto results = stage.run();
  EXPECT_TRUE(stage.runner->interrupted());
  EXPECT_EQ(results.size(), cases().size());
  EXPECT_EQ(results.back().finding.observed, "the run was ended");
}

TEST(ConformIbcmBroken, AnInterruptedCaseShowsWhatItsProgramSaid) {
  Stage stage;
  unsigned begun = 0;  // the plain REQ before the first case, then each case
  bool lost = false;
  stage.hooks.before = [&](const conform::Case&) { ++begun; };
  stage.hooks.after = [&] { return fmt::format("output {}", begun); };
  stage.in = [&](Stage&, const PacketPath&, Bytes&) { return !(lost = lost || begun == 3); };
  const std::vector<const Case*> all = cases(), list(all.begin(), all.begin() + 4);
  stage.runner = std::make_unique<ibcm::Run>(stage.peer, stage.settings, list, Selection{}, stage.hooks);
  stage.peer.start(stage.now, stage.runner->script());
  ASSERT_TRUE(stage.until([&] { return lost; }));
  stage.runner->interrupt();
  const auto& results = stage.runner->results();
  ASSERT_EQ(results.size(), 4U);
  EXPECT_EQ(results[0].finding.verdict, Verdict::pass);
  EXPECT_EQ(results[0].output, "output 2");
  EXPECT_EQ(results[1].finding.observed, "interrupted");
  EXPECT_EQ(results[1].output, "output 3");
  EXPECT_FALSE(results[1].exchanges.empty());
  EXPECT_EQ(results[2].finding.observed, "the run was ended");
  EXPECT_EQ(results[2].output, "") << "its program was not started";
}

TEST(ConformIbcmBroken, ReportsHoldNoNumbersOfTheRun) {
  const auto wanted = [](const Case& c) { return c.what.row.size() < 3; };
  Stage first, second;
  second.settings.seed = 99;
  const ReportHead head{"Parley", "parley conform ibcm", false};
  EXPECT_EQ(markdown(head, Iut::responder, first.run(wanted)), markdown(head, Iut::responder, second.run(wanted)));
}

}  // namespace
}  // namespace parley::conform::ibcm

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Peers that connect and break a rule, made of Parley's own by what stands before it: each case of the initiator fails for one of
// them at least.
#include <set>

#include "ibcm_mangle.hpp"
#include "ibcm_watch.hpp"

namespace parley::conform::ibcm::connecting {
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

/// Not in what comes before the first case: the first connection, which shows that the peer can be tested.
Stage::Mangle later(Stage::Mangle mangle) {
  auto began = std::make_shared<bool>(false);
  return [mangle, began](Stage& stage, const PacketPath& path, Bytes& octets) {
    const bool judged = *began;
    *began = *began || carries<CmDreq>(octets) || carries<CmDrep>(octets);
    return !judged || mangle(stage, path, octets);
  };
}
/// The first of each ID arrives.
template <class M>
Stage::Mangle once() {
  auto told = std::make_shared<std::set<std::uint32_t>>();
  return [told](Stage&, const PacketPath&, Bytes& octets) {
    return !carries<M>(octets) || told->insert(look(octets).id).second;
  };
}
/// What is said where such a message comes in, about its connection.
template <class M, class Body>
Stage::Mangle says(Body body, bool arrives = true) {
  return later([body, arrives](Stage& stage, const PacketPath&, Bytes& octets) {
    if (!carries<M>(octets)) return true;
    const Seen seen = look(octets);
    Body mine = body;
    mine.local_comm_id = std::get<M>(seen.message->body).remote_comm_id;
    mine.remote_comm_id = seen.id;
    stage.say(mine, seen.transaction_id);
    return arrives;
  });
}
const CmRej rej_of_rep{.about = CmSubject::rep, .reason = CmReject::unsupported_request};

std::vector<Broken> of_asking() {
  std::vector<Broken> out;
  out.push_back({"a Q_Key of its own", {}, [](Stage&, const PacketPath&, Bytes& octets) {
                   Seen seen = look(octets);
                   if (!carries<CmReq>(octets)) return true;
                   seen.packet.deth.q_key = 1;
                   put_back(seen, octets);
                   return true;
                 }});
  out.push_back({"no path MTU", {}, changes<CmReq>([](CmReq& req, CmMessage&) { req.path_mtu = 0; })});
  out.push_back({"no header", {}, changes<CmReq>([](CmReq& req, CmMessage&) { req.private_data.fill(0); })});
  out.push_back({"one REQ and no more", {}, once<CmReq>()});
  auto copies = std::make_shared<unsigned>(0);
  out.push_back({"REQs without end", {}, [copies](Stage& stage, const PacketPath&, Bytes& octets) {
                   if (!carries<CmReq>(octets)) return true;
                   if (*copies > 0) {
                     --*copies;
                     return true;
                   }
                   for (*copies = 0; *copies < 20; ++*copies) stage.say(octets);
                   return true;
                 }});
  out.push_back({"a REJ of its own", {}, later([](Stage& stage, const PacketPath&, Bytes& octets) {
                   CmRej rej = rej_of_rep;
                   rej.local_comm_id = look(octets).id;
                   if (carries<CmReq>(octets)) stage.say(rej, 1);
                   return true;
                 })});
  out.push_back({"a REJ of its own, of no connection", {}, later([](Stage& stage, const PacketPath&, Bytes& octets) {
                   if (carries<CmReq>(octets)) stage.say(rej_of_rep, 1);
                   return true;
                 })});
  out.push_back({"RTUs of others", {}, changes<CmRtu>([](CmRtu& rtu, CmMessage&) { rtu.local_comm_id ^= 1; })});
  out.push_back({"RTUs of another exchange", {}, changes<CmRtu>([](CmRtu&, CmMessage& m) { m.transaction_id ^= 1; })});
  out.push_back({"rejects all REPs", says<CmRep>(rej_of_rep, false), {}});
  out.push_back({"one RTU and no more", {}, once<CmRtu>()});
  out.push_back({"no ACKs", {}, [](Stage&, const PacketPath&, Bytes& octets) {
                   const Seen seen = look(octets);
                   return seen.cm() || !wire::ib::rule_of(seen.packet.bth.opcode).response;
                 }});
  out.push_back({"PSNs of its own choice", {}, [](Stage&, const PacketPath&, Bytes& octets) {
                   Seen seen = look(octets);
                   if (seen.cm() || wire::ib::rule_of(seen.packet.bth.opcode).response) return true;
                   seen.packet.bth.psn = (seen.packet.bth.psn + 5) & 0xFFFFFF;
                   put_back(seen, octets);
                   return true;
                 }});
  return out;
}

std::vector<Broken> of_rejects() {
  std::vector<Broken> out;
  out.push_back({"goes on after a REJ", says<CmRej>(CmRtu{}), {}});
  out.push_back({"rejects RTUs", says<CmRtu>(rej_of_rep), {}});
  out.push_back({"rejects MRAs", says<CmMra>(rej_of_rep), {}});
  out.push_back({"no REJ of a REP", {}, drops<CmRej>()});
  out.push_back(
      {"another reason", {}, changes<CmRej>([](CmRej& rej, CmMessage&) { rej.reason = CmReject::consumer; })});
  return out;
}

std::vector<Broken> of_leaving() {
  std::vector<Broken> out;
  out.push_back({"no DREPs", {}, drops<CmDrep>()});
  out.push_back({"one DREP and no more", {}, once<CmDrep>()});
  out.push_back(
      {"DREPs of another exchange", {}, changes<CmDrep>([](CmDrep&, CmMessage& m) { m.transaction_id ^= 1; })});
  out.push_back({"a DREP to any DREQ", says<CmDreq>(CmDrep{}), {}});
  out.push_back({"rejects DREPs", says<CmDrep>(rej_of_rep), {}});
  out.push_back({"an RTU to any REP",
                 later([](Stage& stage, const PacketPath&, Bytes& octets) {
                   const Seen seen = look(octets);
                   if (carries<CmRep>(octets)) stage.say(CmRtu{.remote_comm_id = seen.id}, seen.transaction_id);
                   return true;
                 }),
                 {}});
  auto qpn = std::make_shared<std::uint32_t>(0);
  out.push_back({"acknowledges whatever comes",
                 [qpn](Stage& stage, const PacketPath&, Bytes& octets) {
                   const Seen seen = look(octets);
                   if (seen.message)
                     if (const auto* rep = std::get_if<CmRep>(&seen.message->body)) *qpn = rep->local_qpn;
                   if (!seen.cm() && !wire::ib::rule_of(seen.packet.bth.opcode).response)
                     stage.say_ack(*qpn, seen.packet.bth.psn, PARLEY_IB_CREDITS_NONE, 1);
                   return true;
                 },
                 {}});
  out.push_back({"one DREQ and no more", {}, once<CmDreq>()});
  auto sent = std::make_shared<std::set<std::pair<std::uint32_t, std::uint32_t>>>();
  out.push_back({"sends nothing again", {}, [sent](Stage&, const PacketPath&, Bytes& octets) {
                   const Seen seen = look(octets);
                   return seen.cm() || wire::ib::rule_of(seen.packet.bth.opcode).response ||
                          sent->insert({seen.packet.bth.dest_qpn, seen.packet.bth.psn}).second;
                 }});
  out.push_back({"does not hear NAKs",
                 [](Stage&, const PacketPath&, Bytes& octets) {
                   const Seen seen = look(octets);
                   return seen.cm() || (seen.packet.aeth.syndrome & PARLEY_IB_SYNDROME_KIND) != PARLEY_IB_SYNDROME_NAK;
                 },
                 {}});
  return out;
}

std::vector<Broken> of_resolving() {
  std::vector<Broken> out;
  out.push_back(
      {"no header in a SIDR_REQ", {}, changes<CmSidrReq>([](CmSidrReq& r, CmMessage&) { r.private_data.fill(0); })});
  out.push_back({"does not hear SIDR_REPs", drops<CmSidrRep>(), {}});
  out.push_back({"one SIDR_REQ and no more", {}, once<CmSidrReq>()});
  return out;
}

// What conform fails, check fails: docs/pcap-check.md lists which rule shows it in a capture, or why none can.
TEST(ConformIbcmBrokenInitiator, EachCaseFailsForAPeerThatBreaksItAndACaptureShowsIt) {
  std::set<std::string_view> failed;
  std::map<std::string_view, std::set<std::string_view>> rules;
  for (const Duration after : {Duration(5us), Duration(25ms)})
    for (auto part : {of_asking(), of_rejects(), of_leaving(), of_resolving()})
      for (const Broken& broken : part) {
        Stage stage({.connects = 2});
        CaseWatcher watcher(stage);
        stage.in = broken.in;
        stage.out = broken.out;
        stage.say_after = after;
        stage.settings.refused_max = 1000;
        stage.settings.reply = 1s;
        stage.settings.timer = 10s;
        stage.settings.quiet = 3s;  // longer than the longest wait of what is sent again
        const auto results = stage.run();
        EXPECT_GT(add_failed(results, failed), 0U) << broken.name << " breaks nothing";
        watcher.add_failed(results, rules);
      }
  for (const Case* c : ibcm::cases(Iut::initiator))
    EXPECT_TRUE(failed.contains(c->what.name)) << c->what.name << " never fails";
  expect_documented(Iut::initiator, rules);
}

TEST(ConformIbcmBrokenInitiator, NobodyWhoConnectsIsSaidOnceAndNothingIsRun) {
  Stage stage({.connects = 1});
  stage.out = [](Stage&, const PacketPath&, Bytes&) { return false; };
  const auto results = stage.run();
  EXPECT_TRUE(stage.runner->unreachable());
  EXPECT_NE(stage.runner->why().find("nothing connected"), std::string::npos) << stage.runner->why();
  for (const Result& r : results) EXPECT_EQ(r.finding.verdict, Verdict::not_run) << r.what->name;
}

TEST(ConformIbcmBrokenInitiator, APeerThatTakesNoRepIsNotJudged) {
  Stage stage({.connects = 1});
  stage.in = drops<CmRep>();
  const auto results = stage.run();
  EXPECT_TRUE(stage.runner->refused());
  for (const Result& r : results) EXPECT_EQ(r.finding.verdict, Verdict::not_run) << r.what->name;
}

// Programs that are started for each case: what one sent before it was ended is none of the next one's.
TEST(ConformIbcmBrokenInitiator, ARequestOfAProgramThatIsGoneIsNotTaken) {
  Stage stage({.connects = 1});
  Bytes last;
  unsigned left = 0;
  stage.hooks.before = [](const conform::Case&) {};
  stage.hooks.after = [] { return std::string(); };
  stage.out = [&](Stage&, const PacketPath&, Bytes& octets) {
    if (carries<CmReq>(octets)) last = octets;
    return true;
  };
  stage.in = [&](Stage& s, const PacketPath&, Bytes& octets) {
    if (!carries<CmRej>(octets)) return true;
    Bytes next = last;
    change<CmReq>(next, [&](CmReq& req, CmMessage& message) {
      req.local_comm_id = 0xDEAD + left;
      req.local_qpn = 0x7F00 + left++;
      ++message.transaction_id;
    });
    s.say(next);
    return true;
  };
  const auto wanted = [](const Case& c) { return c.what.name.starts_with("rej-") || c.what.name == "disconnect"; };
  const auto results = stage.run(wanted);
  EXPECT_GT(left, 0U);
  EXPECT_GT(results.size(), 2U);
  for (const Result& r : results)
    EXPECT_EQ(r.finding.verdict, Verdict::pass) << r.what->name << ": " << r.finding.observed;
}

TEST(ConformIbcmBrokenInitiator, ReportsHoldNoNumbersOfTheRun) {
  const auto wanted = [](const Case& c) { return c.what.row.size() < 2; };
  Stage first({.connects = 2}), second({.connects = 2});
  second.settings.seed = 99;
  const ReportHead head{"Parley", "parley conform ibcm initiator", false};
  EXPECT_EQ(markdown(head, Iut::initiator, first.run(wanted)), markdown(head, Iut::initiator, second.run(wanted)));
}

}  // namespace
}  // namespace parley::conform::ibcm::connecting

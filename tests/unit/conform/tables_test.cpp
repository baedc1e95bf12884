// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Tables for a reviewer, in tests/states: what each case sends, and how it judges each answer. Sentences by letters.
#include <fmt/format.h>

#include <array>

#include "base/rng.hpp"
#include "played.hpp"
#include "tests/unit/reviewed.hpp"
#include "tests/unit/runs.hpp"

namespace parley::conform::tables_test {
namespace {

using namespace played;

struct Played {
  std::string_view name;
  Script script;
};

using CaseNames = std::vector<std::string_view>;

CaseNames runnable(Iut iut) {
  CaseNames names;
  for (const Case* c : cases(iut))
    if (c->run != nullptr) names.push_back(c->name);
  return names;
}

using ChangeSettings = std::function<void(Settings&)>;

std::vector<Result> results_of(Iut iut, const Script& script, const CaseNames& names,
                               const ChangeSettings& change = {}) {
  Table table(iut, names, script);
  table.settings.recv_size = 16;
  table.settings.recv_count = 1;
  table.settings.foreign_max = table.settings.refused_max = 1000;  // each case is run
  if (change) change(table.settings);
  table.finish();
  return table.run->results();
}

/// How many octets the tester sent, and their sum.
struct Sent {
  std::size_t octets = 0, sum = 0;
  explicit Sent(const Result& r) {
    for (const Exchange& e : r.exchanges)
      if (e.by_tester) {
        octets += e.octets.size();
        for (const std::uint8_t octet : e.octets) sum += octet;
      }
  }
  std::string text() const { return fmt::format("{} octets, sum {}", octets, sum); }
};

/// What went over the wire, of many FPDUs the first; a line for each case.
std::string sent_by_tester(Iut iut, const Script& script) {
  constexpr std::size_t shown = 14;
  std::string out;
  Legend legend;
  for (const Result& r : results_of(iut, script, runnable(iut))) {
    out += fmt::format("{} ({} ms): {} [{}]", r.what->name, r.took / 1ms, to_string(r.finding.verdict),
                       legend.letter_of_form(r.finding.observed));
    for (std::size_t i = 0; i < std::min(shown, r.exchanges.size()); ++i) {
      const Exchange& e = r.exchanges[i];
      out += fmt::format("; {} ms {}{} {}", (e.at - r.began) / 1ms, e.connection, e.by_tester ? ">" : "<", e.words);
    }
    out += fmt::format("; {} in all, {}\n", r.exchanges.size(), Sent(r).text());
  }
  return out + legend.text();
}

/// Of each case, what was observed of each peer; those of which the same was observed stand together, and the peers like
/// the first are "the others".
std::string verdicts(Iut iut, const std::vector<Played>& peers) {
  const CaseNames names = runnable(iut);
  std::vector<std::vector<Result>> all;
  for (const Played& p : peers) all.push_back(results_of(iut, p.script, names));
  std::string out;
  Legend legend;
  for (std::size_t c = 0; c < names.size(); ++c) {
    std::vector<std::pair<std::string, std::string>> lines;
    for (std::size_t p = 0; p < peers.size(); ++p) {
      const Result& r = all[p][c];
      const std::string words =
          fmt::format("{} [{}]", verdict_text(r, false), legend.letter_of_form(r.finding.observed));
      const auto same = std::find_if(lines.begin(), lines.end(), [&](const auto& l) { return l.first == words; });
      if (same == lines.end())
        lines.emplace_back(words, p == 0 ? "the others" : peers[p].name);
      else if (same != lines.begin())
        same->second += ", " + std::string(peers[p].name);
    }
    out += fmt::format("{}:", names[c]);
    for (const auto& [words, who] : lines) out += fmt::format(" {}: {};", words, who);
    out.back() = '\n';
  }
  return out + legend.text();
}

using MakeScript = std::function<Script(TermCode, Form)>;

constexpr TermCode codes[] = {{2, 0, 2}, {2, 0, 3}, {2, 0, 4}, {2, 0, 5}, {2, 0, 6}, {2, 0, 7}, {2, 3, 2},
                              {1, 2, 1}, {1, 2, 2}, {1, 2, 3}, {1, 2, 4}, {1, 2, 5}, {1, 2, 6}, {1, 1, 0},
                              {1, 1, 1}, {1, 1, 2}, {1, 1, 4}, {0, 0, 0}, {0, 1, 0}, {0, 1, 1}, {0, 1, 2},
                              {0, 1, 5}, {0, 2, 5}, {0, 2, 6}, {0, 2, 7}, {0, 2, 9}, {3, 0, 0}};

constexpr std::pair<Form, std::string_view> forms[] = {{Form::full, "full"},
                                                       {Form::bare, "without M, D and R"},
                                                       {Form::no_read_request, "without R"},
                                                       {Form::wrong_header, "another header"},
                                                       {Form::wrong_length, "another length"},
                                                       {Form::low_bits, "bits at the low end"},
                                                       {Form::siw, "as siw sends it"},
                                                       {Form::siw_bare, "as siw, bare"},
                                                       {Form::cut, "cut"}};

/// One right Terminate of each case, in each form.
std::string forms_judged(Iut iut, const MakeScript& make, const std::map<std::string_view, TermCode>& right,
                         Legend& legend, std::span<const std::pair<Form, std::string_view>> of = forms) {
  std::map<std::string_view, std::vector<std::string>> lines;
  for (const TermCode& code : codes) {
    CaseNames names;
    for (const auto& [name, due] : right)
      if (due == code) names.push_back(name);
    if (names.empty()) continue;
    for (const auto& [form, called] : of)
      for (const Result& r : results_of(iut, make(code, form), names))
        lines[r.what->name].push_back(
            fmt::format("{} [{}]", to_string(r.finding.verdict), legend.letter_of_form(r.finding.observed)));
  }
  std::string out;
  for (const auto& [name, text] : lines) {
    if (std::equal(text.begin() + 1, text.end() - 1, text.begin())) continue;
    out += fmt::format("{}:", name);
    for (std::size_t i = 0; i < text.size(); ++i) out += fmt::format(" {}: {};", of[i].second, text[i]);
    out.back() = '\n';
  }
  return out;
}

/// By case, the codes that pass and that are inconclusive, and what is said of those that fail; then the forms.
std::string terminates_judged(Iut iut, const MakeScript& make) {
  const CaseNames names = runnable(iut);
  std::vector<std::vector<Result>> all;
  for (const TermCode& code : codes) all.push_back(results_of(iut, make(code, Form::full), names));
  std::map<std::string_view, TermCode> right;
  std::string out;
  Legend legend;
  for (std::size_t c = 0; c < names.size(); ++c) {
    std::string passed, open, failed;
    std::set<std::string> words;
    for (std::size_t i = 0; i < std::size(codes); ++i) {
      const Observation& f = all[i][c].finding;
      const std::string code = fmt::format(" {:x}{:x} {:02x}", codes[i].layer, codes[i].etype, codes[i].code);
      if (f.verdict == Verdict::pass) right.try_emplace(names[c], codes[i]);
      if (f.verdict == Verdict::pass) passed += code;
      if (f.verdict == Verdict::inconclusive) open += code;
      if (f.verdict == Verdict::fail && failed.empty()) failed = f.observed;
      words.insert(f.observed);
    }
    if (words.size() == 1) continue;  // the Terminate plays no part in it
    out += fmt::format("{}:", names[c]);
    if (!passed.empty()) out += fmt::format(" pass{};", passed);
    if (!open.empty()) out += fmt::format(" inconclusive{};", open);
    if (!failed.empty()) out += fmt::format(" fail [{}];", legend.letter_of_form(failed));
    out.back() = '\n';
  }
  out += "\n" + forms_judged(iut, make, right, legend);
  // A code that is right nowhere, in the forms in which its octets may be misread.
  const std::span<const std::pair<Form, std::string_view>> misread(std::begin(forms) + 5, 3);
  std::map<std::string_view, TermCode> wrong;
  for (const auto& [name, code] : right) wrong.emplace(name, TermCode{0, 2, 9});
  out += "\n02 09\n" + forms_judged(iut, make, wrong, legend, misread);
  return out + "\n" + legend.text();
}

/// What the tester sends in each case; peers to which it sends the same share a line.
std::string sent_to_each(Iut iut, const std::vector<Played>& peers, const CaseNames& names) {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const Played& p : peers)
    for (const Result& r : results_of(iut, p.script, names)) {
      std::string words = fmt::format("{} ({} ms)", r.what->name, r.took / 1ms);
      std::size_t n = 0;
      for (const Exchange& e : r.exchanges)
        if (e.by_tester && ++n <= 4) words += fmt::format("; {} {}", e.connection, e.words);
      words += fmt::format("; {} in all, {}", n, Sent(r).text());
      const auto same = std::find_if(lines.begin(), lines.end(), [&](const auto& l) { return l.first == words; });
      if (same == lines.end())
        lines.emplace_back(words, p.name);
      else
        same->second += "; " + std::string(p.name);
    }
  std::string out;
  for (const auto& [words, who] : lines) out += words + "  <- " + who + "\n";
  return out;
}

Change with(const std::function<void(StartupOctets&)>& change) { return change; }
/// Changes the IRD and ORD words, if there are any.
Change words(unsigned ird_clear, unsigned ird_set, unsigned ord_clear, unsigned ord_set) {
  return [=](StartupOctets& s) {
    if (!s.enhanced) return;
    const std::uint32_t ird = *s.enhanced >> 16, ord = *s.enhanced & 0xFFFF;
    s.enhanced = tester::enhanced((ird & ~ird_clear) | ird_set, (ord & ~ord_clear) | ord_set);
  };
}
constexpr unsigned A = PARLEY_MPA_ENH_A, B = PARLEY_MPA_ENH_B, C = PARLEY_MPA_ENH_C, D = PARLEY_MPA_ENH_D,
                   depth = PARLEY_MPA_ENH_DEPTH_MASK;

Script of_peer_to_peer(const Change& change) {
  return responder(takes_everything, change,
                   [](const Received& r) { return sound(r) && r.enhanced.has_value() && r.enhanced->a; });
}

std::vector<Played> responders() {
  const auto changed = [](const Change& change) { return responder(takes_everything, change); };
  const auto flags = [&](std::uint8_t set, std::uint8_t clear) {
    return changed(with([=](StartupOctets& s) { s.flags = static_cast<std::uint8_t>((s.flags & ~clear) | set); }));
  };
  return {
      {"takes everything", responder(takes_everything)},
      {"takes any Request", responder(takes_everything, {}, any)},
      {"takes revision 1 alone",
       responder(takes_everything, {}, [](const Received& r) { return sound(r) && r.revision == 1; })},
      {"takes A alone", of_peer_to_peer({})},
      {"takes A alone, B", of_peer_to_peer(words(0, B, C | D, 0))},
      {"takes A alone, D", of_peer_to_peer(words(B, 0, C, D))},
      {"takes A alone, no A", of_peer_to_peer(words(A, 0, 0, 0))},
      {"revision 3, any Request", responder(takes_everything, with([](StartupOctets& s) { s.revision = 3; }), any)},
      {"revision 129, any Request", responder(takes_everything, with([](StartupOctets& s) { s.revision = 129; }), any)},
      {"reads 2 octets", responder(reads_little)},
      {"a Read Response too many", responder(answers_twice)},
      {"a Terminate, then RST", responder(terminates({0, 2, 5}, Form::full, true))},
      {"says nothing", responder(says_nothing)},
      {"FIN", responder(ends)},
      {"RST", responder(resets)},
      {"R", flags(flag_r, 0)},
      {"M", flags(flag_m, 0)},
      {"no C", flags(0, flag_c)},
      {"no S", changed(with([](StartupOctets& s) {
         s.flags &= static_cast<std::uint8_t>(~flag_s);
         s.enhanced.reset();
       }))},
      {"S and no data", changed(with([](StartupOctets& s) {
         s.flags |= flag_s;
         s.enhanced.reset();
       }))},
      {"reserved bits", flags(0x0F, 0)},
      {"revision 1", changed(with([](StartupOctets& s) { s.revision = 1; }))},
      {"revision 3", changed(with([](StartupOctets& s) { s.revision = 3; }))},
      {"revision 0", responder(takes_everything, with([](StartupOctets& s) {
                                 s.revision = 0;
                                 s.flags |= flag_m;
                               }),
                               any)},
      {"Request as the answer", changed(with([](StartupOctets& s) { s.key = PARLEY_MPA_KEY_REQ; }))},
      {"another key", changed(with([](StartupOctets& s) { s.key = "HTTP/1.1 400 Bad"; }))},
      {"private data", changed(with([](StartupOctets& s) { s.private_data = Bytes(8, 0x78); }))},
      {"an octet behind it", changed(with([](StartupOctets& s) { s.trailing = Bytes(1, 0x78); }))},
      {"IRD 0", changed(words(depth, 0, 0, 0))},
      {"IRD 1 less", changed(with([](StartupOctets& s) {
         if (s.enhanced && (*s.enhanced & (depth << 16)) != 0) *s.enhanced -= 1 << 16;
       }))},
      {"ORD 1 more", changed(with([](StartupOctets& s) {
         if (s.enhanced && (*s.enhanced & depth) != depth) *s.enhanced += 1;
       }))},
      {"ORD 3fff", changed(words(0, 0, 0, depth))},
      {"no A", changed(words(A, 0, 0, 0))},
      {"no kinds", changed(words(B, 0, C | D, 0))},
      {"A and B", changed(words(0, A | B, C | D, 0))},
      {"A and C", changed(words(B, A, D, C))},
      {"A and D", changed(words(B, A, C, D))},
      {"A, B, C and D", changed(words(0, A | B, 0, C | D))},
      {"B", changed(words(A, B, 0, 0))},
      {"C", changed(words(A, 0, 0, C))},
      {"D", changed(words(A, 0, 0, D))},
  };
}

StartupOctets request(std::uint8_t flags, std::uint8_t revision = 1, std::optional<std::uint32_t> enhanced = {}) {
  return {.flags = flags, .revision = revision, .enhanced = enhanced};
}

std::vector<Played> initiators() {
  const StartupOctets v1 = request(flag_c), v2 = request(flag_c | flag_s, 2, tester::enhanced(4, 4));
  const auto p2p = [](unsigned ird, unsigned ord) {
    return request(flag_c | flag_s, 2, tester::enhanced(4 | A | ird, 4 | ord));
  };
  const auto sends = [](const StartupOctets& r) { return initiator(takes_everything, r); };
  const auto first = [](const StartupOctets& r, const Bytes& ulpdu) {
    return initiator(takes_everything, r, true, true, ulpdu);
  };
  Bytes short_advertisement = rping_advertisement();
  short_advertisement.back() = 2;
  return {
      {"revision 1", sends(v1)},
      {"revision 2", sends(v2)},
      {"A, B", sends(p2p(B, 0))},
      {"A, C", sends(p2p(0, C))},
      {"A, D", sends(p2p(0, D))},
      {"A, B, C", sends(p2p(B, C))},
      {"A, all kinds", sends(p2p(B, C | D))},
      {"A alone", sends(p2p(0, 0))},
      {"a Read Response too many", initiator(answers_twice, v2)},
      {"takes any Reply", initiator(takes_everything, v2, false)},
      {"takes any Reply, A, C", initiator(takes_everything, p2p(0, C), false)},
      {"says nothing behind it", initiator(says_nothing, v2, true, false)},
      {"waits for the tester", initiator(takes_everything, v2, false, false)},
      {"FIN", initiator(ends, v2, false)},
      {"RST", initiator(resets, v2, false)},
      {"M", sends(request(flag_c | flag_m, 2))},
      {"no C", sends(request(flag_s, 2, tester::enhanced(4, 4)))},
      {"R", sends(request(flag_c | flag_r))},
      {"reserved bits", sends(request(flag_c | 0x0F, 2))},
      {"S under revision 1", sends(request(flag_c | flag_s))},
      {"S and no data", sends(request(flag_c | flag_s, 2))},
      {"B without A", sends(request(flag_c | flag_s, 2, tester::enhanced(4 | B, 4)))},
      {"3fff", sends(request(flag_c | flag_s, 2, tester::enhanced(depth, depth)))},
      {"IRD 300", sends(request(flag_c | flag_s, 2, tester::enhanced(300, 4)))},
      {"IRD 3fff", sends(request(flag_c | flag_s, 2, tester::enhanced(depth, 4)))},
      {"ORD 3fff", sends(request(flag_c | flag_s, 2, tester::enhanced(4, depth)))},
      {"A, C, a Write of 4 octets first", first(p2p(0, C), tester::segment(tester::write_header(1, 0), Bytes(4, 0)))},
      {"A, C, a Send first", first(p2p(0, C), tester::segment(tester::send_header(1)))},
      {"A, C, a Read first", first(p2p(0, C), tester::read_request(1, {.sink_stag = 1}))},
      {"A, D, a Read of 4 octets first", first(p2p(0, D), tester::read_request(1, {.sink_stag = 1, .size = 4}))},
      {"A, D, a Write first", first(p2p(0, D), tester::segment(tester::write_header(1, 0)))},
      {"A, B, a Send of 4 octets first", first(p2p(B, 0), tester::segment(tester::send_header(1), Bytes(4, 0)))},
      {"an advertisement of 2 octets", first(v2, tester::segment(tester::send_header(1), short_advertisement))},
      {"a Terminate, then RST", initiator(terminates({0, 2, 5}, Form::full, true), v2)},
      {"a Terminate of 3 octets", initiator(terminates({0, 2, 5}, Form::cut, true), v2)},
      {"IRD and ORD 0", sends(request(flag_c | flag_s, 2, tester::enhanced(0, 0)))},
      {"revision 3", sends(request(flag_c, 3))},
      {"octets behind it", sends({.flags = flag_c, .trailing = Bytes(4, 0)})},
      {"a Reply", sends({.key = PARLEY_MPA_KEY_REP, .flags = flag_c})},
      {"no Request", sends({.key = "GET / HTTP/1.1\r\n"})},
  };
}

// ---- settings

struct OtherSettings {
  std::string_view name;
  void (*change)(Settings&);
};
constexpr OtherSettings other_settings[] = {
    {"as usual", [](Settings&) {}},
    {"receives unknown", [](Settings& s) { s.recv_size.reset(), s.recv_count.reset(); }},
    {"no receive", [](Settings& s) { s.recv_count = 0; }},
    {"five receives of 1 octet", [](Settings& s) { s.recv_count = 5, s.recv_size = 1; }},
    {"receives of 5000 octets", [](Settings& s) { s.recv_size = 5000; }},
    {"receives of unknown size", [](Settings& s) { s.recv_size.reset(); }},
    {"unknown program", [](Settings& s) { s.ulp = Ulp::unknown; }},
    {"unknown program, receives unknown",
     [](Settings& s) { s.ulp = Ulp::unknown, s.recv_size.reset(), s.recv_count.reset(); }},
    {"speaks first", [](Settings& s) { s.speaks_first = true; }},
    {"speaks first, unknown program", [](Settings& s) { s.speaks_first = true, s.ulp = Ulp::unknown; }},
    {"short times",
     [](Settings& s) {
       s.reply = 5ms, s.quiet = 3ms, s.timer = 2s, s.patience = 1s, s.pause = 7ms, s.first_fpdu = 1ms, s.connect = 9ms;
     }},
    {"long times", [](Settings& s) { s.reply = 50s, s.quiet = 9s, s.timer = 99s, s.patience = 300s, s.pause = 2s; }},
};

/// Of each case and setting, how long it took, how it was judged, and a CRC32c of all that the tester sent.
std::string judged_by_settings(Iut iut, const std::vector<Played>& peers) {
  const CaseNames names = runnable(iut);
  std::string out;
  Legend legend;
  for (const Played& peer : peers) {
    std::vector<std::vector<std::pair<std::string, std::string>>> lines(names.size());
    for (const OtherSettings& other : other_settings) {
      const auto results = results_of(iut, peer.script, names, other.change);
      for (std::size_t c = 0; c < results.size(); ++c) {
        const std::string words =
            fmt::format("{} ms, {}, {} [{}]", results[c].took / 1ms, Sent(results[c]).text(),
                        verdict_text(results[c], false), legend.letter_of_form(results[c].finding.observed));
        const auto same =
            std::find_if(lines[c].begin(), lines[c].end(), [&](const auto& l) { return l.first == words; });
        if (same == lines[c].end())
          lines[c].emplace_back(words, other.name);
        else if (same != lines[c].begin())
          same->second += ", " + std::string(other.name);
      }
    }
    out += fmt::format("==== {}\n", peer.name);
    for (std::size_t c = 0; c < names.size(); ++c) {
      if (lines[c].size() < 2) continue;  // no setting plays a part in it
      out += fmt::format("{}:", names[c]);
      for (const auto& [words, who] : lines[c]) out += fmt::format(" {}: {};", words, who);
      out.back() = '\n';
    }
  }
  return out + legend.text();
}

/// Peers that answer the fitting Reply with drawn changes and go on in one of the ways above: by case the verdicts, how long it
/// took, and how much the tester sent and observed.
std::string judged_of_drawn(Iut iut, std::uint64_t seeds) {
  const CaseNames names = runnable(iut);
  struct Sums {
    std::int64_t took = 0, at = 0;
    std::size_t exchanges = 0, words = 0, sent = 0, sum = 0;
  };
  std::vector<Sums> all(names.size());
  std::vector<std::array<unsigned, 4>> counts(names.size());
  const After afters[] = {takes_everything,
                          takes_everything,
                          answers_twice,
                          reads_little,
                          ends,
                          resets,
                          says_nothing,
                          terminates({2, 0, 2}),
                          terminates({0, 2, 6}),
                          terminates({1, 1, 0}, Form::bare, true)};
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    Rng rng(seed);
    const After& after = afters[rng.below(std::size(afters))];
    const std::uint8_t flip = rng.below(2) == 0 ? 0 : static_cast<std::uint8_t>(1U << rng.below(8));
    const std::uint32_t words = rng.below(3) == 0 ? 0 : 1U << rng.below(32);
    const std::size_t data = rng.below(3) == 0 ? rng.below(40) : 0, trailing = rng.below(6) == 0 ? rng.below(9) : 0;
    const bool picky = rng.below(2) != 0, old = rng.below(4) == 0;
    const Change change = [=](StartupOctets& s) {
      s.flags ^= flip;
      if (s.enhanced) *s.enhanced ^= words;
      s.private_data = Bytes(data, 0x5A);
      s.trailing = Bytes(trailing, 0x11);
      if (old) s.revision = 1, s.enhanced.reset();
    };
    StartupOctets asked = request(flag_c | flag_s, 2, tester::enhanced(4 | (picky ? A : 0), 4 | C));
    change(asked);
    const Script script =
        iut == Iut::responder ? responder(after, change, picky ? sound : any) : initiator(after, asked, picky);
    const auto results = results_of(iut, script, names);
    for (std::size_t c = 0; c < results.size(); ++c) {
      const Result& r = results[c];
      ++counts[c][static_cast<std::size_t>(r.finding.verdict) % 4];
      Sums& of = all[c];
      of.took += r.took.count();
      of.words += r.finding.observed.size();
      of.exchanges += r.exchanges.size();
      for (const Exchange& e : r.exchanges) of.words += e.words.size(), of.at += (e.at - r.began).count();
      of.sent += Sent(r).octets, of.sum += Sent(r).sum;
    }
  }
  std::string out;
  for (std::size_t c = 0; c < names.size(); ++c) {
    const Sums& of = all[c];
    out += fmt::format("  {}{}; {} {} {} {} {} {}\n", pad(names[c], 40), fmt::join(counts[c], " "), of.took, of.at,
                       of.exchanges, of.words, of.sent, of.sum);
  }
  return out;
}

TEST(ConformTables, WhatDependsOnTheSettings) {
  const StartupOctets v2 = request(flag_c | flag_s, 2, tester::enhanced(4, 4));
  expect_as_reviewed(
      "conform_settings.txt",
      judged_by_settings(Iut::responder, {{"a responder that takes everything", responder(takes_everything)},
                                          {"a responder that says nothing", responder(says_nothing)},
                                          {"a responder that terminates", responder(terminates({0, 2, 6}))}}) +
          judged_by_settings(Iut::initiator, {{"an initiator that takes everything", initiator(takes_everything, v2)},
                                              {"an initiator that says nothing", initiator(says_nothing, v2)},
                                              {"an initiator that terminates", initiator(terminates({0, 2, 6}), v2)}}));
}
TEST(ConformTables, HowDrawnPeersAreJudged) {
  expect_as_reviewed("conform_drawn.txt",
                     "# 60 drawn peers each: verdicts in their order; sums of ns taken, of when things were seen, of "
                     "how many, of the octets of\n"
                     "# all words, of octets sent and their values.\nresponders\n" +
                         judged_of_drawn(Iut::responder, 60) + "initiators\n" + judged_of_drawn(Iut::initiator, 60));
}

TEST(ConformTables, WhatEachCaseSendsToAResponder) {
  expect_as_reviewed("conform_responder_sent.txt", sent_by_tester(Iut::responder, responder(takes_everything)));
}
TEST(ConformTables, WhatEachCaseSendsToAnInitiator) {
  const StartupOctets p2p = request(flag_c | flag_s, 2, tester::enhanced(4 | A, 4 | C));
  expect_as_reviewed("conform_initiator_sent.txt", sent_by_tester(Iut::initiator, initiator(takes_everything, p2p)));
}
TEST(ConformTables, WhatIsSentDependsOnTheAnswer) {
  expect_as_reviewed(
      "conform_answers.txt",
      sent_to_each(Iut::responder, responders(), {"a-alone", "nonzero-pad", "fpduptr-low-bits"}) +
          sent_to_each(Iut::responder,
                       {{"M", responder(takes_everything, with([](StartupOctets& s) { s.flags |= flag_m; }))}},
                       {"markers-at-every-place-sent", "markers-at-every-place-received"}) +
          sent_to_each(Iut::initiator, initiators(), {"nonzero-pad", "request-sound"}));
}
TEST(ConformTables, HowEachResponderIsJudged) {
  expect_as_reviewed("conform_responder.txt", verdicts(Iut::responder, responders()));
}
TEST(ConformTables, HowEachInitiatorIsJudged) {
  expect_as_reviewed("conform_initiator.txt", verdicts(Iut::initiator, initiators()));
}
TEST(ConformTables, HowTerminatesOfAResponderAreJudged) {
  expect_as_reviewed(
      "conform_responder_terminates.txt",
      terminates_judged(Iut::responder, [](TermCode code, Form form) { return responder(terminates(code, form)); }));
}
TEST(ConformTables, HowTerminatesOfAnInitiatorAreJudged) {
  const StartupOctets v2 = request(flag_c | flag_s, 2, tester::enhanced(4, 4));
  expect_as_reviewed("conform_initiator_terminates.txt",
                     terminates_judged(Iut::initiator, [&](TermCode code, Form form) {
                       return initiator(terminates(code, form), v2, false);
                     }));
}

}  // namespace
}  // namespace parley::conform::tables_test

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley mad decode --read`: the datagrams of captures that Parley writes and of real ones, whole and damaged.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/bytes_io.hpp"
#include "capture/read/mad/mad_reader.hpp"
#include "mad/frame.hpp"
#include "mad/rmpp.hpp"
#include "tools/command.hpp"
#include "tools/mad/segments.hpp"
#include "wire/mad/sa.hpp"
#include "wire/mad/smp.hpp"
#include "wire/pcapng.hpp"

namespace parley::tools::mad_decode_test {
namespace {

using namespace std::chrono_literals;
using capture::CapturedMad;
using capture::MadReader;
using Status = MadReader::Status;
using wire::mad::Method;
using wire::mad::MgmtClass;

constexpr auto ethernet = static_cast<std::uint16_t>(wire::LinkType::ethernet);

wire::mad::Datagram path_query() {
  return wire::mad::request<MgmtClass::subn_adm, Method::get>(
      wire::mad::PathRecord{}.set(wire::mad::PathRecord::dlid, 5), {.transaction_id = 7});
}

Gid gid_ending(std::uint8_t last) { return Gid{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}; }

mad::LocalPort port_one() {
  mad::LocalPort local;
  local.lid = 1;
  local.gid = gid_ending(1);
  return local;
}

mad::Address at_lid(std::uint16_t lid) {
  mad::Address out;
  out.lid = lid;
  return out;
}

mad::Address at_gid(std::uint8_t last) {
  mad::Address out = at_lid(5);
  out.grh = mad::Grh{.gid = gid_ending(last), .traffic_class = 0x55, .flow_label = 0x12345};
  return out;
}

/// A captured packet that owns its octets.
struct Taken {
  Bytes octets;
  std::uint16_t link_type = wire::link_type_erf;
  std::uint32_t original_length = 0;

  wire::CapturedPacket packet() const {
    wire::CapturedPacket out;
    out.frame = 9;
    out.link_type = link_type;
    out.octets = octets;
    out.original_length = std::max(original_length, static_cast<std::uint32_t>(octets.size()));
    return out;
  }
};

Taken on_link(const mad::Address& other, ConstBytes mad, bool out = true) {
  return {mad::erf_record({}, mad::frame_of(port_one(), other, mad, out))};
}

wire::ib::Packet datagram(ConstBytes payload, std::uint32_t from = 1, std::uint32_t to = 1,
                          std::uint32_t q_key = PARLEY_IB_GSI_Q_KEY) {
  wire::ib::Packet out;
  out.bth.opcode = wire::ib::opcode_of(wire::ib::Service::ud, wire::ib::Operation::send_only);
  out.bth.dest_qpn = to;
  out.deth = {q_key, from, 0};
  out.payload = payload;
  return out;
}

enum class Over { v1, v2_ipv4, v2_ipv6 };

Taken over_roce(const wire::ib::Packet& packet, Over over = Over::v2_ipv4, std::uint16_t vlan = 0) {
  wire::ib::RoceHeader header;
  header.v2 = over != Over::v1;
  header.source = over == Over::v2_ipv4 ? gid_of(Address::v4(192, 0, 2, 1, 0)) : gid_ending(1);
  header.destination = over == Over::v2_ipv4 ? gid_of(Address::v4(192, 0, 2, 2, 0)) : gid_ending(2);
  Bytes octets(packet.size()), network(header.size());
  packet.emit(octets);
  wire::ib::seal(header, octets);
  header.emit(network, octets.size());
  Bytes frame(12 + (vlan != 0 ? 4 : 0) + 2);
  Writer w(frame);
  w.zeros(12);
  if (vlan != 0) {
    w.be16(0x8100);
    w.be16(vlan);
  }
  w.be16(over == Over::v1 ? 0x8915 : over == Over::v2_ipv4 ? wire::ethertype_ipv4 : wire::ethertype_ipv6);
  frame.insert(frame.end(), network.begin(), network.end());
  frame.insert(frame.end(), octets.begin(), octets.end());
  return {frame, ethernet};
}

Status read(const Taken& taken, CapturedMad& out, MadReader& reader) {
  const auto packet = taken.packet();
  return reader.read(packet, out);
}

/// "LID 1 QP 1 -> LID 5 QP 1" if the datagram comes back with the same octets.
std::string comes_back(const Taken& taken, ConstBytes mad) {
  MadReader reader;
  CapturedMad out;
  if (read(taken, out, reader) != Status::mad) return "no datagram " + reader.why();
  if (!out.damage.empty()) return out.damage;
  if (Bytes(out.octets.begin(), out.octets.end()) != Bytes(mad.begin(), mad.end())) return "other octets";
  return fmt::format("{} -> {}", end_text(out.source), end_text(out.destination));
}

TEST(MadReader, GivesBackWhatTheTapWrote) {
  const auto query = path_query();
  const auto smp = wire::mad::request<MgmtClass::subn_directed, Method::get>(wire::mad::NodeInfo{});
  EXPECT_EQ(comes_back(on_link(at_lid(5), query), query), "LID 1 QP 1 -> LID 5 QP 1");
  EXPECT_EQ(comes_back(on_link(at_lid(5), query, false), query), "LID 5 QP 1 -> LID 1 QP 1");
  EXPECT_EQ(comes_back(on_link(at_gid(9), query), query), "LID 1 GID fe80::1 QP 1 -> LID 5 GID fe80::9 QP 1");
  EXPECT_EQ(comes_back(on_link(at_lid(PARLEY_MAD_PERMISSIVE_LID), smp), smp), "LID 65535 QP 0 -> LID 65535 QP 0");
  mad::Address pair = at_lid(5);
  pair.qpn = 0x1234;
  EXPECT_EQ(comes_back(on_link(pair, query), query), "LID 1 QP 1 -> LID 5 QP 4660");
  // A table that the kernel put together.
  Bytes table(query.begin(), query.end());
  table.resize(4096, 0x77);
  EXPECT_EQ(comes_back(on_link(at_lid(5), table), table), "LID 1 QP 1 -> LID 5 QP 1");
}

TEST(MadReader, TakesEveryCarrier) {
  const auto query = path_query();
  const auto link = [&](const mad::Address& to) { return mad::frame_of(port_one(), to, query, true); };
  EXPECT_EQ(comes_back({link(at_lid(5)), wire::link_type_infiniband}, query), "LID 1 QP 1 -> LID 5 QP 1");
  Bytes without_vcrc = link(at_gid(5));
  without_vcrc.resize(without_vcrc.size() - 2);
  EXPECT_EQ(comes_back({without_vcrc, wire::link_type_infiniband}, query),
            "LID 1 GID fe80::1 QP 1 -> LID 5 GID fe80::5 QP 1");
  EXPECT_EQ(comes_back(over_roce(datagram(query), Over::v1), query), "GID fe80::1 QP 1 -> GID fe80::2 QP 1");
  EXPECT_EQ(comes_back(over_roce(datagram(query), Over::v2_ipv6, 7), query), "GID fe80::1 QP 1 -> GID fe80::2 QP 1");
  EXPECT_EQ(comes_back(over_roce(datagram(query)), query), "GID ::ffff:192.0.2.1 QP 1 -> GID ::ffff:192.0.2.2 QP 1");
  // Two extension headers in front of the packet, and padding behind the record.
  Bytes record = on_link(at_lid(5), query).octets;
  record[8] |= 0x80;
  const std::uint8_t more[16] = {0x83, 1, 2, 3, 4, 5, 6, 7, 0x03};
  record.insert(record.begin() + 16, std::begin(more), std::end(more));
  Writer(MutBytes(record).subspan(10, 2)).be16(static_cast<std::uint16_t>(record.size()));
  record.resize(record.size() + 6);
  EXPECT_EQ(comes_back({record}, query), "LID 1 QP 1 -> LID 5 QP 1");
}

TEST(MadReader, KnowsADatagramByQueuePairOrQKey) {
  const auto query = path_query();
  const auto status = [](const wire::ib::Packet& packet) {
    MadReader reader;
    CapturedMad out;
    return read(over_roce(packet), out, reader);
  };
  EXPECT_EQ(status(datagram(query, 17, 1)), Status::mad);
  EXPECT_EQ(status(datagram(query, 1, 17)), Status::mad);
  EXPECT_EQ(status(datagram(query, 1, 17, 0x11111111)), Status::mad);
  EXPECT_EQ(status(datagram(query, 17, 1, 0x11111111)), Status::mad);
  EXPECT_EQ(status(datagram(query, 17, 18)), Status::mad);
  EXPECT_EQ(status(datagram(query, 17, 18, 0x11111111)), Status::none);
  EXPECT_EQ(status(datagram(ConstBytes(query).first(252), 17, 18)), Status::none);
  auto other = query;
  other[0] = 2;
  EXPECT_EQ(status(datagram(other, 17, 18)), Status::none);
  wire::ib::Packet write = datagram(query);
  write.bth.opcode = wire::ib::opcode_of(wire::ib::Service::rc, wire::ib::Operation::send_only);
  EXPECT_EQ(status(write), Status::none);
  MadReader reader;
  CapturedMad out;
  EXPECT_EQ(read({Bytes(300), 189}, out, reader), Status::unsupported);
  Bytes of_ethernet = on_link(at_lid(5), query).octets;
  of_ethernet[8] = 2;
  EXPECT_EQ(read({of_ethernet}, out, reader), Status::none);
}

struct Carried {
  const char* name;
  Taken taken;
  std::size_t bth, end;  // octets of the frame: where the BTH is, behind the ICRC
};

std::vector<Carried> carried(ConstBytes mad) {
  const auto row = [&](const char* name, Taken taken, std::size_t bth) {
    return Carried{name, std::move(taken), bth, bth + datagram(mad).size()};
  };
  return {row("ERF", on_link(at_lid(5), mad), 24),
          row("ERF with GRH", on_link(at_gid(5), mad), 64),
          row("InfiniBand", {mad::frame_of(port_one(), at_lid(5), mad, true), wire::link_type_infiniband}, 8),
          row("RoCEv1", over_roce(datagram(mad), Over::v1), 54),
          row("RoCEv2", over_roce(datagram(mad)), 42),
          row("RoCEv2 over IPv6", over_roce(datagram(mad), Over::v2_ipv6), 62)};
}

TEST(MadReader, FindsEveryOctetThatIsAltered) {
  const auto query = path_query();
  MadReader reader;
  CapturedMad out;
  for (const Carried& c : carried(query))
    for (std::size_t at = c.bth; at < c.end; ++at) {
      SCOPED_TRACE(fmt::format("{}, octet {}", c.name, at));
      Taken altered = c.taken;
      altered.octets[at] ^= 0x10;
      const Status status = read(altered, out, reader);
      if (at == c.bth + 4) {  // FECN and BECN may change on the way
        EXPECT_EQ(status, Status::mad);
        EXPECT_EQ(out.damage, "");
      } else if (at == c.bth || at == c.bth + 1) {  // what is sent by another opcode is none; padding is in the length
        EXPECT_TRUE(status != Status::mad || !out.damage.empty());
      } else {
        ASSERT_EQ(status, Status::mad);
        EXPECT_NE(out.damage.find("the ICRC is"), std::string::npos) << out.damage;
      }
    }
}

TEST(MadReader, TellsOfEveryCut) {
  const auto query = path_query();
  MadReader reader;
  CapturedMad out;
  for (const Carried& c : carried(query))
    for (std::size_t size = 0; size < c.end; ++size) {
      SCOPED_TRACE(fmt::format("{}, {} octets", c.name, size));
      Taken cut = c.taken;
      cut.original_length = static_cast<std::uint32_t>(cut.octets.size());
      cut.octets.resize(size);
      const Status status = read(cut, out, reader);
      const std::size_t headers = c.bth + 12 + 8, ends = headers + query.size();
      if (size >= c.bth + 12) {
        ASSERT_EQ(status, Status::mad);
        const std::size_t known = std::min(size, ends) - std::min(size, headers);
        EXPECT_EQ(Bytes(out.octets.begin(), out.octets.end()),
                  Bytes(query.begin(), query.begin() + static_cast<std::ptrdiff_t>(known)));
        EXPECT_EQ(out.damage, known < query.size() ? fmt::format("{} of its 256 octets are in the capture", known)
                                                   : "its ICRC is not in the capture");
      } else {
        EXPECT_TRUE(status == Status::unreadable || status == Status::none);
        if (size >= c.bth) {
          EXPECT_EQ(reader.why(), "frame 9: it is cut before its type can be read");
        }
      }
    }
}

TEST(MadReader, TakesNothingFromBehindARecordsEnd) {
  const auto query = path_query();
  Taken taken = on_link(at_lid(5), query);
  Writer(MutBytes(taken.octets).subspan(10, 2)).be16(static_cast<std::uint16_t>(taken.octets.size() - 56));
  MadReader reader;
  CapturedMad out;
  EXPECT_EQ(read(taken, out, reader), Status::mad);
  EXPECT_EQ(out.octets.size(), 206u);
  EXPECT_EQ(out.damage, "206 of its 256 octets are in the capture");
}

TEST(MadReader, TellsOfLengthsThatContradictEachOther) {
  const auto query = path_query();
  MadReader reader;
  CapturedMad out;
  Taken taken = on_link(at_lid(5), query);
  taken.octets[16 + 5] += 1;
  EXPECT_EQ(read(taken, out, reader), Status::unreadable);
  EXPECT_EQ(reader.why(), "frame 9, octet 16: the LRH's length is 292 octets, but the packet has 290");
  taken = on_link(at_gid(5), query);
  taken.octets[16 + 8 + 5] -= 4;
  EXPECT_EQ(read(taken, out, reader), Status::unreadable);
  EXPECT_EQ(reader.why(), "frame 9, octet 24: the GRH contradicts the LRH");
  taken = on_link(at_lid(5), query);
  taken.octets[10] = taken.octets[11] = 0;
  EXPECT_EQ(read(taken, out, reader), Status::unreadable);
  EXPECT_EQ(reader.why(), "frame 9, octet 10: an ERF record of 0 octets is too short for its header");
  taken = over_roce(datagram(query));
  taken.octets.resize(taken.octets.size() - 10);
  EXPECT_EQ(read(taken, out, reader), Status::unreadable);
  EXPECT_EQ(reader.why(), "frame 9, octet 14: the packet is shorter than its headers say");
  EXPECT_EQ(read(over_roce(datagram(ConstBytes(query).first(100))), out, reader), Status::mad);
  EXPECT_EQ(out.damage, "a management datagram has 256 octets, and this one 100");
}

// ---- tables in segments

std::vector<wire::mad::Datagram> segments_of(std::size_t data, std::uint64_t transaction_id, Bytes* message = nullptr) {
  Bytes all(mad::rmpp::header_octets + data);
  all[0] = 1;
  all[1] = 3;
  all[2] = 2;
  all[3] = 0x92;
  Writer(MutBytes(all).subspan(8, 8)).be64(transaction_id);
  for (std::size_t i = mad::rmpp::header_octets; i < all.size(); ++i)
    all[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  if (message != nullptr) *message = all;
  auto sender = *mad::rmpp::Sender::create(all, {});
  auto receiver = mad::rmpp::Receiver();
  sender.start(Instant{});
  std::vector<wire::mad::Datagram> out;
  for (wire::mad::Datagram mad; sender.poll_transmit(mad);) {
    out.push_back(mad);
    receiver.handle(Instant{}, mad);
    while (receiver.poll_transmit(mad)) sender.handle(Instant{}, mad);
  }
  return out;
}

struct Gathered {
  Segments segments;
  std::vector<Segments::Table> tables;

  void take(ConstBytes mad, std::uint16_t from = 2) {
    CapturedMad captured;
    captured.source.lid = from;
    captured.octets = mad;
    if (auto table = segments.take(captured)) tables.push_back(std::move(*table));
  }
};

Bytes data_of(ConstBytes message) { return Bytes(message.begin() + mad::rmpp::header_octets, message.end()); }

TEST(MadSegments, OfSeveralTablesAreToldApart) {
  Bytes first, second;
  const auto a = segments_of(1000, 7, &first), b = segments_of(900, 8, &second);
  ASSERT_EQ(a.size(), 5u);
  ASSERT_EQ(b.size(), 5u);
  Gathered g;
  for (std::size_t i = 0; i < a.size(); ++i) {
    g.take(a[i], 2);
    g.take(b[i], 2);
    g.take(a[i], 3);  // the same transaction ID of somebody else
    g.take(a[i], 2);  // again
  }
  ASSERT_EQ(g.tables.size(), 3u);
  EXPECT_EQ(data_of(g.tables[0].octets), data_of(first));
  EXPECT_EQ(data_of(g.tables[1].octets), data_of(second));
  EXPECT_EQ(data_of(g.tables[2].octets), data_of(first));
  EXPECT_EQ(g.tables[0].segments, 5u);
  EXPECT_EQ(g.segments.not_whole(), 0u);
}

TEST(MadSegments, WithoutOneOfThemThereIsNoTable) {
  const auto all = segments_of(1000, 7);
  for (std::size_t lost = 0; lost < all.size(); ++lost) {
    Gathered g;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i != lost) g.take(all[i]);
    EXPECT_TRUE(g.tables.empty()) << lost;
    EXPECT_EQ(g.segments.not_whole(), lost == 0 ? 0u : 1u) << lost;  // without the first one nothing began
    g.take(all[lost]);
    EXPECT_EQ(g.tables.size(), lost == 0 ? 0u : 1u) << lost;
  }
  Gathered g;
  for (const auto& mad : segments_of(200, 7)) g.take(mad);
  EXPECT_TRUE(g.tables.empty());  // a single segment is shown as it is
}

TEST(MadSegments, NoMoreTablesThanTheBoundAreFollowed) {
  Gathered g;
  for (std::uint64_t id = 0; id < Segments::tables_max + 3; ++id) g.take(segments_of(1000, id).front());
  EXPECT_EQ(g.segments.not_whole(), Segments::tables_max + 3);
  const auto gone = segments_of(1000, 0), there = segments_of(1000, Segments::tables_max + 2);
  for (std::size_t i = 1; i < gone.size(); ++i) {
    g.take(gone[i]);
    g.take(there[i]);
  }
  EXPECT_EQ(g.tables.size(), 1u);
}

// ---- the command

struct Said {
  int code = 0;
  std::string out, err;

  std::vector<nlohmann::json> objects() const {
    std::vector<nlohmann::json> all;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }
};

Said decode(std::vector<std::string> words) {
  words.insert(words.begin(), {"parley", "mad", "decode"});
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  std::ostringstream out, err;
  const int code = run_command_line(static_cast<int>(argv.size()), argv.data(), out, err);
  return {code, out.str(), err.str()};
}

std::string real(const std::string& name) { return PARLEY_SOURCE_DIR "/tests/captures/" + name + ".pcap"; }

class MadDecode : public testing::Test {
 protected:
  MadDecode() : directory_(std::filesystem::path(testing::TempDir()) / fmt::format("parley-decode-{}", getpid())) {
    std::filesystem::create_directories(directory_);
  }
  ~MadDecode() override { std::filesystem::remove_all(directory_); }

  std::string file(const Bytes& octets) const {
    const std::string path = (directory_ / "capture").string();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(octets.data()), static_cast<std::streamsize>(octets.size()));
    return path;
  }
  static Bytes pcap(const std::vector<Taken>& packets) {
    Bytes out;
    wire::PcapWriter writer(out, packets.front().link_type);
    Instant at{1000s};
    for (const Taken& taken : packets) writer.packet(at += 250ms, taken.octets, taken.original_length);
    return out;
  }

  std::filesystem::path directory_;
};

TEST_F(MadDecode, FindsInRealCapturesWhatTsharkFinds) {
  // tshark -Y infiniband.mad
  const std::pair<const char*, int> files[] = {{"ib_2008_mthca_erf", 17},  {"rxe61_cm", 36},
                                               {"rxe61_data", 73},         {"rxe61_errors_loss", 33},
                                               {"rxe61_mra_mcast_ll", 14}, {"rxe61_sidr_stale_abort", 6},
                                               {"rxe61_unreachable", 21}};
  for (const auto& [name, datagrams] : files) {
    SCOPED_TRACE(name);
    const Said said = decode({"--read", real(fmt::format("roce/{}", name)), "--json"});
    EXPECT_EQ(said.code, 0) << said.err;
    const auto last = said.objects().back();
    EXPECT_EQ(last["event"], "decoded");
    EXPECT_EQ(last["datagrams"], datagrams);
    EXPECT_EQ(last["damaged"], 0);
    EXPECT_EQ(last["unreadable"], 0);
  }
}

TEST_F(MadDecode, ShowsFrameTimeAndEndsInEachForm) {
  const std::string capture = real("roce/ib_2008_mthca_erf");
  const Said text = decode({"--read", capture});
  EXPECT_TRUE(text.out.starts_with("frame 1, 0.000000000 s, LID 65535 QP 0 -> LID 65535 QP 0\nSubnGet(SmInfo)\n"))
      << text.out.substr(0, 200);
  EXPECT_NE(text.out.find("\n\nframe 7, 9.180316000 s, LID 4 QP 1 -> LID 1 QP 1\n"), std::string::npos);
  EXPECT_NE(text.err.find("17 management datagrams in 43 packets, 0 damaged"), std::string::npos) << text.err;
  const Said dotted = decode({"-r", capture, "--form", "dotted"});
  EXPECT_TRUE(dotted.out.starts_with("frame=1\nat_s=0.000000000\nsource.lid=65535\nsource.qpn=0\n"));
  const auto first = decode({"-r", capture, "--json"}).objects().front();
  EXPECT_EQ(first["number"], 1);
  EXPECT_EQ(first["title"], "SubnGet(SmInfo)");
  EXPECT_EQ(first["source"], (nlohmann::json{{"lid", 65535}, {"gid", nullptr}, {"qpn", 0}}));
  EXPECT_EQ(first["damage"], nullptr);
}

TEST_F(MadDecode, TellsOfDamageAndReadsOn) {
  const auto query = path_query();
  Taken altered = on_link(at_lid(5), query), cut = altered, shorter = altered, odd = altered;
  altered.octets[100] ^= 1;
  cut.original_length = shorter.original_length = static_cast<std::uint32_t>(cut.octets.size());
  cut.octets.resize(150);
  shorter.octets.resize(60);
  odd.octets[16 + 5] += 1;
  const std::string path = file(pcap({altered, cut, shorter, odd, on_link(at_gid(3), query)}));
  const Said said = decode({"--read", path, "--json"});
  EXPECT_EQ(said.code, 1) << said.err;
  const auto all = said.objects();
  ASSERT_EQ(all.size(), 6u) << said.out;
  EXPECT_NE(all[0]["damage"].get<std::string>().find("the ICRC is"), std::string::npos);
  EXPECT_EQ(all[1]["damage"], "106 of its 256 octets are in the capture");
  EXPECT_EQ(all[2]["event"], "unreadable");
  EXPECT_EQ(all[2]["frame"], 3);
  EXPECT_EQ(all[2]["text"], "frame 3: a management datagram to LID 5 QP 1: 16 of its 256 octets are in the capture");
  EXPECT_EQ(all[3]["event"], "unreadable");
  EXPECT_EQ(all[3]["frame"], 4);
  EXPECT_EQ(all[4]["frame"], 5);
  EXPECT_EQ(all[4]["at_s"], 1.0);
  EXPECT_EQ(all[4]["damage"], nullptr);
  EXPECT_EQ(
      all[5],
      (nlohmann::json{
          {"event", "decoded"}, {"packets", 5}, {"datagrams", 3}, {"tables", 0}, {"damaged", 2}, {"unreadable", 2}}));
  EXPECT_NE(said.err.find("frame 4, octet 16: the LRH's length"), std::string::npos) << said.err;
  EXPECT_NE(decode({"--read", path}).out.find("\ndamaged: 106 of its 256 octets"), std::string::npos);
}

TEST_F(MadDecode, PutsTablesTogether) {
  std::vector<Taken> packets;
  for (const auto& mad : segments_of(1000, 7)) packets.push_back(on_link(at_lid(5), mad, false));
  const auto all = decode({"--read", file(pcap(packets)), "--json"}).objects();
  ASSERT_EQ(all.size(), 7u);
  EXPECT_EQ(all[4]["frame"], 5);
  EXPECT_EQ(all[5]["frame"], 5);
  EXPECT_EQ(all[5]["segments"], 5);
  EXPECT_FALSE(all[4].contains("segments"));
  EXPECT_EQ(all[6]["datagrams"], 5);
  EXPECT_EQ(all[6]["tables"], 1);
  packets.pop_back();
  const Said said = decode({"--read", file(pcap(packets))});
  EXPECT_EQ(said.code, 0);
  EXPECT_NE(said.err.find("1 table without all segments in order"), std::string::npos) << said.err;
}

TEST_F(MadDecode, ReadsEachInterfaceOfAPcapngByItsLinkType) {
  const auto query = path_query();
  Bytes octets;
  wire::PcapngWriter writer(octets, {});
  const std::uint32_t wire = writer.add_interface("eth0", ethernet), usb = writer.add_interface("usb", 189),
                      link = writer.add_interface("ib0", wire::link_type_infiniband);
  writer.packet(wire, Instant{2s}, over_roce(datagram(query)).octets);
  writer.packet(usb, Instant{1s}, Bytes(60));
  writer.packet(link, Instant{1s}, mad::frame_of(port_one(), at_lid(5), query, true));
  const Said said = decode({"--read", file(octets), "--json"});
  EXPECT_EQ(said.code, 0) << said.err;
  const auto all = said.objects();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0]["source"]["gid"], "::ffff:192.0.2.1");
  EXPECT_EQ(all[1]["frame"], 3);
  EXPECT_EQ(all[1]["at_s"], -1.0);
  EXPECT_NE(said.err.find("1 packet left out: link type 189 (USB, Linux)"), std::string::npos) << said.err;
}

TEST_F(MadDecode, TakesTimesThatAreFurtherApartThanADurationGoes) {
  const auto query = path_query();
  const Bytes frame = mad::frame_of(port_one(), at_lid(5), query, true);
  Bytes octets;
  wire::PcapngWriter writer(octets, {});
  const std::uint32_t late = writer.add_interface("ib0", wire::link_type_infiniband);
  Bytes early(36);  // an interface whose times are 2^40 s before
  Writer block(early);
  block.le32(1);
  block.le32(36);
  block.le16(wire::link_type_infiniband);
  block.zeros(6);
  block.le16(14);  // if_tsoffset
  block.le16(8);
  block.le64(static_cast<std::uint64_t>(-(1LL << 40)));
  block.zeros(4);
  block.le32(36);
  octets.insert(octets.end(), early.begin(), early.end());
  writer.packet(late + 1, Instant{}, frame);
  writer.packet(late, Instant{Duration::max()}, frame);
  const auto all = decode({"--read", file(octets), "--json"}).objects();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0]["at_s"], 0.0);
  EXPECT_NEAR(all[1]["at_s"].get<double>(), 9.223372e9, 1e4);
}

TEST_F(MadDecode, NothingLookedAtIsNotAPass) {
  const auto refused = [](const Said& said, int code, const std::string& text) {
    EXPECT_EQ(said.code, code) << said.err;
    EXPECT_NE(said.err.find(text), std::string::npos) << said.err;
  };
  refused(decode({"--read", real("iwarp/siw_v1")}), 1, "no management datagram in ");
  const auto query = path_query();
  Bytes empty = pcap({on_link(at_lid(5), query)});
  empty.resize(24);
  refused(decode({"--read", file(empty)}), 1, "no management datagram in 0 packets");
  refused(decode({"--read", "/nowhere/at.pcap"}), 3, "/nowhere/at.pcap: No such file");
  refused(decode({"--read", PARLEY_SOURCE_DIR "/README.md"}), 3, "offset 0");
  refused(decode({"--read", file(pcap({{Bytes(60), 189}}))}), 3, "link type 189 (USB, Linux) is not decoded");
  refused(decode({"--read", real("roce/rxe61_cm"), "0102"}), 2, "--read");
  refused(decode({real("roce/rxe61_cm")}), 2, "a capture is read with --read ");
  Bytes half = pcap({on_link(at_lid(5), query), on_link(at_lid(5), query)});
  half.resize(half.size() - 20);
  const Said said = decode({"--read", file(half), "--json"});
  refused(said, 3, "capture: offset ");
  EXPECT_EQ(said.objects().front()["frame"], 1);
}

}  // namespace
}  // namespace parley::tools::mad_decode_test

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A live peer that sends anything, to the frame reader of scripted peers: what it takes off the stream does not depend
// on how TCP cut it, no octet is lost, and every script comes to its end.
#include <string>
#include <vector>

#include "tester/frame_reader.hpp"
#include "tests/fuzz/draw.hpp"

namespace parley::fuzz {
namespace {

using namespace std::chrono_literals;
using tester::FrameReader;
using tester::Received;
using tester::ScriptedPeer;
using tester::Task;
using tester::TcpStream;

struct How {
  bool crc = true, markers = false, frame_first = true;
  bool reset = false;  ///< the peer ends with RST, not FIN
};

struct Taken {
  std::vector<std::string> words;
  std::size_t octets = 0;  ///< of frames and ULPDUs, and what was left behind them
  bool operator==(const Taken&) const = default;
};

Task<void> take_all(ScriptedPeer& peer, How how, Taken& taken) {
  TcpStream* tcp = co_await peer.connect(Address::v4(192, 0, 2, 1, 7471), 5s);
  PARLEY_ASSERT(tcp != nullptr);
  FrameReader reader(peer, *tcp);
  if (how.frame_first) {
    const Received first = co_await reader.startup(1s);
    taken.words.push_back(first.text());
    taken.octets += first.octets.size();
    if (first.kind != Received::Kind::startup) co_return;
  }
  reader.fpdus(how.crc, how.markers);
  for (;;) {
    const Received next = co_await reader.fpdu(1s);
    taken.words.push_back(next.text());
    taken.octets += next.octets.size();
    if (next.kind != Received::Kind::fpdu) co_return;
    (void)next.terminate();
    (void)next.payload();
  }
}

Taken play(ConstBytes octets, const How& how, Chunks* chunks) {
  Taken taken;
  Instant now{1s};
  ScriptedPeer peer;
  peer.start(now, take_all(peer, how, taken));
  StreamCommand command;
  PARLEY_ASSERT(peer.poll_command(command) && command.kind == StreamCommand::Kind::open);
  const StreamId stream = command.id;
  peer.handle_connected(now, stream, {.local = Address::v4(192, 0, 2, 2, 40000), .peer = command.address});
  while (!octets.empty()) {
    const std::size_t n = chunks == nullptr ? octets.size() : std::min(octets.size(), chunks->next());
    const Bytes copy(octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(n));  // gone after the call
    peer.handle_bytes(now, stream, copy);
    octets = octets.subspan(n);
    while (peer.poll_command(command)) continue;
  }
  peer.handle_end(now, stream, how.reset ? StreamEnd::rst : StreamEnd::fin);
  while (!peer.done()) {
    PARLEY_ASSERT(peer.next_deadline() != never);
    now = peer.next_deadline();
    peer.handle_deadline(now);
  }
  return taken;
}

void run(ConstBytes in) {
  Draw draw(in);
  const std::uint8_t flags = draw.u8();
  const How how{
      .crc = (flags & 1) != 0, .markers = (flags & 2) != 0, .frame_first = (flags & 4) == 0, .reset = (flags & 8) != 0};
  Chunks chunks(draw.u8());
  const ConstBytes octets = draw.rest();
  const Taken whole = play(octets, how, nullptr), cut = play(octets, how, &chunks);
  PARLEY_ASSERT(whole.octets <= octets.size());
  // An end of the stream shows only as far as the script looked: words may differ there, what was found before not.
  const auto frames = [](const Taken& t) {
    return std::vector<std::string>(t.words.begin(), t.words.end() - (t.words.empty() ? 0 : 1));
  };
  PARLEY_ASSERT(frames(whole) == frames(cut));
}

}  // namespace
}  // namespace parley::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parley::fuzz::run({data, size});
  return 0;
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley pcap anonymize`: writes a capture that can be shown to others, with the same verdict. The input is read
// twice. The output gets its final name only when it is complete.
#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "capture/anonymize/anonymize.hpp"
#include "capture/report/text.hpp"
#include "tools/options.hpp"
#include "tools/pcap/capture_source.hpp"
#include "tools/pcap/pcap.hpp"
#include "tools/progress.hpp"

namespace parley::tools {
namespace {

struct AnonymizeArgs {
  std::string in, out, key, key_file;
  bool keep_stags = false, shift_time = false;
};

constexpr std::size_t key_file_max = 64 << 10;

Or<capture::AnonymizeKey> key_of(const AnonymizeArgs& args) {
  if (!args.key.empty()) return capture::AnonymizeKey::from_text(args.key);
  if (!args.key_file.empty()) {
    std::ifstream file(args.key_file, std::ios::binary);
    std::string text(key_file_max + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    if (text.empty())
      return command_error(Exit::environment, fmt::format("{}: no key can be read from it", args.key_file));
    if (text.size() > key_file_max)
      return command_error(Exit::usage, fmt::format("{}: a key has at most {} octets", args.key_file, key_file_max));
    return capture::AnonymizeKey::from_text(text);
  }
  capture::AnonymizeKey key;
  if (::getrandom(&key, sizeof key, 0) != sizeof key)
    return command_error(Exit::environment, fmt::format("no random key can be drawn: {}", std::strerror(errno)));
  return key;
}

/// The output while it is being written, as PATH.part. It is removed unless keep() succeeds.
class PartFile {
 public:
  explicit PartFile(std::string path)
      : path_(std::move(path)), draft_(path_ + ".part"), file_(std::fopen(draft_.c_str(), "wbx")) {}
  ~PartFile() {
    if (!file_) return;
    file_.reset();
    std::remove(draft_.c_str());
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  bool open() const { return file_ != nullptr; }
  const std::string& name() const { return draft_; }
  bool write(const Bytes& octets) {
    return octets.empty() || std::fwrite(octets.data(), 1, octets.size(), file_.get()) == octets.size();
  }
  bool keep() {
    const bool whole = std::fflush(file_.get()) == 0;
    const bool closed = std::fclose(file_.release()) == 0;
    if (whole && closed && std::rename(draft_.c_str(), path_.c_str()) == 0) return true;
    const int why = errno;
    std::remove(draft_.c_str());
    errno = why;
    return false;
  }

 private:
  struct Closer {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::string path_, draft_;
  std::unique_ptr<std::FILE, Closer> file_;
};

class Anonymize {
 public:
  Anonymize(const AnonymizeArgs& args, Output& out) : args_(args), out_(out) {}

  int run() {
    if (args_.in == "-") return out_.error(Exit::usage, "the capture is read twice, so it cannot be standard input");
    if (args_.out == "-") return out_.error(Exit::usage, "the new capture is written to a file; -o - names none");
    std::error_code error;
    if (std::filesystem::equivalent(args_.in, args_.out, error) && !error)
      return out_.error(Exit::usage, fmt::format("-o {} would overwrite the capture that is to be read", args_.out));
    const auto key = key_of(args_);
    if (!key) return out_.error(key.error().exit, key.error().text);
    capture::Anonymizer work({.key = *key, .keep_stags = args_.keep_stags, .shift_time = args_.shift_time});
    const FeedResult fed = feed_capture(
        args_.in, [&work](const wire::CapturedPacket& packet) { work.note(packet); },
        [this](std::uint64_t octets, std::uint64_t total) { progress(octets, 2 * total); });
    if (!fed.error.empty() && fed.packets == 0)
      return out_.error(Exit::environment, fmt::format("{}: {}", args_.in, fed.error));
    work.learned();
    if (const std::string why = work.refusal(); !why.empty()) return refused(why);
    PartFile draft(args_.out);
    if (!draft.open())
      return out_.error(Exit::environment, fmt::format("{}: cannot be made: {}", draft.name(), std::strerror(errno)));
    if (const auto done = write(work, draft); !done) return out_.error(done.error().exit, done.error().text);
    if (const std::string why = work.refusal(); !why.empty()) return refused(why);
    if (work.frames().packets != fed.packets)
      return out_.error(Exit::environment, fmt::format("{} changed while it was read", args_.in));
    if (!draft.keep())
      return out_.error(Exit::environment, fmt::format("{}: cannot be written: {}", args_.out, std::strerror(errno)));
    bar_.reset();
    report(work, fed.error);
    if (fed.error.empty()) return code(Exit::ok);
    return out_.error(Exit::environment,
                      fmt::format("{}: {}; {} holds what comes before", args_.in, fed.error, args_.out));
  }

 private:
  int refused(const std::string& why) {
    bar_.reset();
    return out_.error(Exit::environment, fmt::format("{}: not anonymized, nothing was written: {}", args_.in, why));
  }

  void progress(std::uint64_t octets, std::uint64_t total) {
    if (total / 2 < Progress::octets_min || !Progress::standard_error_is_terminal()) return;
    if (!bar_) bar_ = std::make_unique<Progress>(out_, "MiB", total >> 20, true);
    bar_->update(octets >> 20, args_.in);
  }

  Or<void> write(capture::Anonymizer& work, PartFile& draft) {
    const auto source = CaptureSource::open(args_.in);
    if (!source) return command_error(source.error().exit, fmt::format("{}: {}", args_.in, source.error().text));
    constexpr std::size_t chunk = 1 << 20;  // octets per read and write
    Bytes buffer(wire::capture_window_min + chunk), made;
    std::size_t begin = 0, end = 0;
    for (bool more = true; more;) {
      std::size_t consumed = 0;
      const auto status = work.rewrite(ConstBytes(buffer).subspan(begin, end - begin), made, consumed);
      begin += consumed;
      if (status == wire::CaptureStatus::packet && made.size() < chunk) continue;
      if (!draft.write(made))
        return command_error(Exit::environment, fmt::format("{}: {}", draft.name(), std::strerror(errno)));
      made.clear();
      if (status == wire::CaptureStatus::packet) continue;
      if (status == wire::CaptureStatus::error) break;
      std::copy(buffer.begin() + static_cast<std::ptrdiff_t>(begin), buffer.begin() + static_cast<std::ptrdiff_t>(end),
                buffer.begin());
      end -= begin;
      begin = 0;
      const std::size_t n = (*source)->read(MutBytes(buffer).subspan(end));
      end += n;
      more = n > 0;
      progress((*source)->total() + (*source)->octets(), 2 * (*source)->total());
    }
    return {};
  }

  void report(const capture::Anonymizer& work, const std::string& damage) {
    const auto& s = work.streams();
    const auto& f = work.frames();
    const auto& c = work.container();
    if (out_.json) {
      out_.object({{"file", args_.in},
                   {"output", args_.out},
                   {"packets", f.packets},
                   {"replaced",
                    {{"address_fields", f.addresses},
                     {"ipv4_addresses", work.ipv4_addresses()},
                     {"port_fields", f.ports},
                     {"private_data_octets", s.private_data},
                     {"stream_octets", s.payload_replaced}}},
                   {"zeroed", {{"tcp_octets", s.zeroed}, {"packets_not_understood", f.other}}},
                   {"dropped",
                    {{"header_options", f.options_dropped},
                     {"blocks", c.blocks_dropped},
                     {"block_options", c.options_dropped}}},
                   {"kept",
                    {{"startup_frames", s.startup_frames},
                     {"messages", s.messages},
                     {"fpdus", s.fpdus},
                     {"crc_right", s.crc_right},
                     {"crc_wrong", s.crc_wrong},
                     {"checksums_right", f.checksums_right},
                     {"checksums_wrong", f.checksums_wrong}}},
                   {"key", args_.key.empty() && args_.key_file.empty() ? "random" : "given"},
                   {"stags", args_.keep_stags ? "kept" : "replaced"},
                   {"complete", damage.empty()}});
      return;
    }
    const auto n = counted;
    out_.text(fmt::format(
        "{} -> {}: {}\n"
        "  replaced   {} ({} of IPv4), {}, {} of private data,\n"
        "             {} of startup frames and FPDUs rewritten ({}: {} right, {} wrong, as before)\n"
        "  zeroed     {} of TCP payload that is not FPDUs, payload of {} and {}, {} not understood\n"
        "  dropped    {} of headers, {} and {} of the file\n"
        "  checksums  {} right, {} wrong, as before",
        args_.in, args_.out, n(f.packets, "packet"), n(f.addresses, "address field"), work.ipv4_addresses(),
        n(f.ports, "port field"), n(s.private_data, "octet"), n(s.payload_replaced, "octet"), n(s.fpdus, "FPDU"),
        n(s.crc_right, "CRC"), s.crc_wrong, n(s.zeroed, "octet"), n(f.udp, "UDP packet"), n(f.icmp, "ICMP packet"),
        n(f.other, "packet"), n(f.options_dropped, "option"), n(c.blocks_dropped, "block"),
        n(c.options_dropped, "block option"), f.checksums_right, f.checksums_wrong));
  }

  const AnonymizeArgs& args_;
  Output& out_;
  std::unique_ptr<Progress> bar_;
};

}  // namespace

void add_pcap_anonymize(Command pcap, Context& context) {
  auto args = std::make_shared<AnonymizeArgs>();
  Command sub = pcap.subcommand("anonymize", "Replaces addresses, ports, private data and payload; the verdict stays");
  sub.option("IN", args->in, "Capture: pcap or pcapng").type("FILE").required();
  sub.option("-o,--output", args->out, "Where the new capture goes").type("FILE").required();
  Option key =
      sub.option("--key", args->key, "The key of the replacements; use one key for several files to replace alike")
          // An unset shell variable would silently replace addresses differently in each file.
          .check([](const std::string& text) { return text.empty() ? "the key is empty" : ""; });
  sub.option("--key-file", args->key_file, "The same from a file, so that it is in no list of processes")
      .type("FILE")
      .excludes(key);
  sub.flag("--keep-stags", args->keep_stags,
           "Leave STags and tagged offsets as they are, to compare them with a program's log");
  sub.flag("--shift-time", args->shift_time, "Let the earliest packet be at 1970-01-01 00:00:00");
  add_json_flag(sub, context);
  sub.footer(
      "Without a key a random one is drawn and forgotten: the change cannot be undone.\n"
      "Exit code: 0 written, 2 usage, 3 the capture cannot be read (to its end), is too large to be anonymized, or is "
      "of\n"
      "a link type that is not decoded\n\n"
      "Examples:\n"
      "  parley pcap anonymize a-b.pcapng -o public.pcapng\n"
      "  parley pcap anonymize --key \"$(cat secret)\" --shift-time side-a.pcap -o a.pcap");
  sub.run([args, &context] { return Anonymize(*args, context.out).run(); });
}

}  // namespace parley::tools

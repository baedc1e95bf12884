// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/pcap/live.hpp"

#include <fmt/format.h>

#ifdef PARLEY_HAVE_PCAP
#include <poll.h>

#include <pcap/pcap.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/after.hpp"
#include "drivers/clock.hpp"
#endif

namespace parley::pcap_driver {

#ifdef PARLEY_HAVE_PCAP

namespace {

constexpr int fill_milliseconds = 100;  // the kernel delivers packets at least this often
constexpr int linktype_raw_ip = 101;

tl::unexpected<LiveError> system_error(std::string text) { return tl::unexpected(LiveError{false, std::move(text)}); }

std::string names(const std::vector<Interface>& interfaces) {
  std::string out;
  for (const Interface& i : interfaces) out += (out.empty() ? "" : ", ") + i.name;
  return out.empty() ? "none that this user may see" : out;
}

LiveError refusal(int status, pcap_t* p, const std::string& interface) {
  const std::string detail = ::pcap_geterr(p);
  const auto with_detail = [&](std::string text) {
    return LiveError{false, detail.empty() ? text : text + ": " + detail};
  };
  switch (status) {
    case PCAP_ERROR_PERM_DENIED:
    case PCAP_ERROR_PROMISC_PERM_DENIED:
      return {false, fmt::format("no permission to capture on '{}': run it as root, or allow the program once with "
                                 "'sudo setcap cap_net_raw+ep $(command -v parley)'",
                                 interface)};
    case PCAP_ERROR_NO_SUCH_DEVICE: {
      const auto there = list_interfaces();
      return {false,
              fmt::format("no interface '{}'; there are: {}", interface, there ? names(*there) : there.error().text)};
    }
    case PCAP_ERROR_IFACE_NOT_UP:
      return {false, fmt::format("the interface '{}' is not up: ip link set {} up", interface, interface)};
    case PCAP_ERROR: return with_detail(fmt::format("cannot capture on '{}'", interface));
    default: return with_detail(fmt::format("cannot capture on '{}': {}", interface, ::pcap_statustostr(status)));
  }
}

/// The link type numbers of files and those of libpcap's functions differ where systems once disagreed.
std::uint16_t file_link_type(int dlt) { return static_cast<std::uint16_t>(dlt == DLT_RAW ? linktype_raw_ip : dlt); }

/// The increase of a counter of 32 bits.
std::uint64_t more(std::uint32_t now, std::uint32_t& last) {
  const std::uint32_t n = now - last;
  last = now;
  return n;
}

}  // namespace

struct LiveCapture::Handle {
  explicit Handle(pcap_t* p) : pcap(p) {}
  ~Handle() { ::pcap_close(pcap); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  OrLive<void> set_filter(const LiveOptions& options) {
    if (options.filter.empty()) return {};
    bpf_program code{};
    if (::pcap_compile(pcap, &code, options.filter.c_str(), 1, PCAP_NETMASK_UNKNOWN) != 0)
      return tl::unexpected(
          LiveError{true, fmt::format("the filter '{}' cannot be used: {}", options.filter, ::pcap_geterr(pcap))});
    const int set = ::pcap_setfilter(pcap, &code);
    ::pcap_freecode(&code);
    if (set != 0) return system_error(fmt::format("the filter cannot be set: {}", ::pcap_geterr(pcap)));
    return {};
  }

  pcap_t* pcap;
  bool nanoseconds = false;
  std::uint32_t kernel_last = 0, interface_last = 0;  // libpcap counts in 32 bits
};

OrLive<std::vector<Interface>> list_interfaces() {
  pcap_if_t* all = nullptr;
  char why[PCAP_ERRBUF_SIZE] = "";
  if (::pcap_findalldevs(&all, why) != 0) return system_error(fmt::format("interfaces cannot be listed: {}", why));
  std::vector<Interface> out;
  for (const pcap_if_t* i = all; i != nullptr; i = i->next)
    out.push_back({i->name, i->description != nullptr ? i->description : "", (i->flags & PCAP_IF_UP) != 0,
                   (i->flags & PCAP_IF_LOOPBACK) != 0});
  ::pcap_freealldevs(all);
  return out;
}

OrLive<std::unique_ptr<LiveCapture>> LiveCapture::open(const LiveOptions& options) {
  char why[PCAP_ERRBUF_SIZE] = "";
  pcap_t* const p = ::pcap_create(options.interface.c_str(), why);
  if (p == nullptr) return system_error(fmt::format("cannot capture on '{}': {}", options.interface, why));
  std::unique_ptr<LiveCapture> live(new LiveCapture(std::make_unique<Handle>(p)));
  ::pcap_set_snaplen(p, LiveOptions::snap_length);
  ::pcap_set_promisc(p, options.promiscuous ? 1 : 0);
  ::pcap_set_timeout(p, fill_milliseconds);
  ::pcap_set_buffer_size(p, static_cast<int>(std::clamp(options.buffer_octets, LiveOptions::buffer_octets_min,
                                                        LiveOptions::buffer_octets_max)));
  live->handle_->nanoseconds = ::pcap_set_tstamp_precision(p, PCAP_TSTAMP_PRECISION_NANO) == 0;
  const int status = ::pcap_activate(p);
  if (status < 0) return tl::unexpected(refusal(status, p, options.interface));
  if (status > 0) {
    live->warning_ = ::pcap_geterr(p);
    if (live->warning_.empty()) live->warning_ = ::pcap_statustostr(status);
  }
  live->link_type_ = file_link_type(::pcap_datalink(p));
  if (const auto set = live->handle_->set_filter(options); !set) return tl::unexpected(set.error());
  if (::pcap_setnonblock(p, 1, why) != 0)
    return system_error(fmt::format("cannot capture on '{}': {}", options.interface, why));
  return live;
}

OrLive<std::size_t> LiveCapture::read(Duration wait, const std::function<void(const LivePacket&)>& on_packet) {
  pcap_t* const p = handle_->pcap;
  struct Call {
    const std::function<void(const LivePacket&)>* on_packet;
    std::int64_t fraction;
  } call{&on_packet, handle_->nanoseconds ? 1 : 1000};
  const auto give = [](u_char* user, const pcap_pkthdr* header, const u_char* octets) {
    const auto* c = reinterpret_cast<const Call*>(user);
    LivePacket packet;
    packet.at = Instant(std::chrono::seconds(header->ts.tv_sec) +
                        std::chrono::nanoseconds(static_cast<std::int64_t>(header->ts.tv_usec) * c->fraction));
    packet.original_length = header->len;
    packet.octets = ConstBytes(octets, header->caplen);
    (*c->on_packet)(packet);
  };
  const Instant end = after(clock_now(), wait);
  while (true) {
    pollfd ready{::pcap_get_selectable_fd(p), POLLIN, 0};
    const Duration left = std::clamp<Duration>(end - clock_now(), Duration{}, std::chrono::minutes(1));
    // Some kinds of interface have no descriptor to wait for: poll() ignores -1, and only the time limit ends the wait.
    const int woken = ::poll(&ready, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
    if (woken < 0 && errno != EINTR)
      return system_error(fmt::format("cannot wait for packets: {}", std::strerror(errno)));
    const int n = ::pcap_dispatch(p, batch_max, give, reinterpret_cast<u_char*>(&call));
    if (n < 0) return system_error(::pcap_geterr(p));
    // Packets from before the filter was set also wake the call, but are not delivered.
    if (n > 0 || woken <= 0 || left <= Duration{}) return static_cast<std::size_t>(n);
  }
}

LiveDrops LiveCapture::drops() {
  pcap_stat now{};
  if (::pcap_stats(handle_->pcap, &now) == 0) {
    drops_.kernel += more(now.ps_drop, handle_->kernel_last);
    drops_.interface += more(now.ps_ifdrop, handle_->interface_last);
  }
  return drops_;
}

#else

namespace {
tl::unexpected<LiveError> none() {
  return tl::unexpected(LiveError{false, "this build has no libpcap: build Parley where libpcap-dev is installed"});
}
}  // namespace

struct LiveCapture::Handle {};
OrLive<std::vector<Interface>> list_interfaces() { return none(); }
OrLive<std::unique_ptr<LiveCapture>> LiveCapture::open(const LiveOptions&) { return none(); }
OrLive<std::size_t> LiveCapture::read(Duration, const std::function<void(const LivePacket&)>&) { return none(); }
LiveDrops LiveCapture::drops() { return drops_; }

#endif

LiveCapture::LiveCapture(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
LiveCapture::~LiveCapture() = default;

}  // namespace parley::pcap_driver

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/pcap/filter.hpp"

#include <fmt/format.h>

#ifdef PARLEY_HAVE_PCAP
#include <pcap/pcap.h>
#endif

namespace parley::pcap_driver {

#ifdef PARLEY_HAVE_PCAP

namespace {

constexpr int snap_length = 1 << 20;  // no packet that Parley reads is longer
constexpr std::uint16_t ethernet = 1, cooked = 113, raw_ip = 101;

/// The link type numbers of files and those of libpcap's functions differ where systems once disagreed.
int dlt_of(std::uint16_t link_type) { return link_type == raw_ip ? DLT_RAW : link_type; }

}  // namespace

struct PacketFilter::Program {
  bpf_program code{};
  std::string wrong;  ///< libpcap's message; empty: code is set

  Program(std::uint16_t link_type, const std::string& expression) {
    pcap_t* const dead = ::pcap_open_dead(dlt_of(link_type), snap_length);
    if (dead == nullptr) {
      wrong = "libpcap has no memory";
      return;
    }
    if (::pcap_compile(dead, &code, expression.c_str(), 1, PCAP_NETMASK_UNKNOWN) != 0) {
      wrong = ::pcap_geterr(dead);
      if (wrong.empty()) wrong = "it cannot be compiled";
    }
    ::pcap_close(dead);
  }
  ~Program() {
    if (wrong.empty()) ::pcap_freecode(&code);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
};

tl::expected<std::unique_ptr<PacketFilter>, std::string> PacketFilter::make(const std::string& expression) {
  std::unique_ptr<PacketFilter> filter(new PacketFilter(expression));
  // Some expressions are invalid for one link type and valid for another, and the file is not known yet.
  const Program* const first = filter->program(ethernet);
  if (first == nullptr || first->wrong.empty() || filter->program(cooked)->wrong.empty() ||
      filter->program(raw_ip)->wrong.empty())
    return filter;
  return tl::unexpected(first->wrong);
}

const PacketFilter::Program* PacketFilter::program(std::uint16_t link_type) {
  const auto known = programs_.find(link_type);
  if (known != programs_.end()) return known->second.get();
  if (programs_.size() >= link_types_max) return nullptr;
  return programs_.emplace(link_type, std::make_unique<Program>(link_type, expression_)).first->second.get();
}

bool PacketFilter::passes(std::uint16_t link_type, ConstBytes octets, std::uint32_t original_length) {
  const Program* const p = program(link_type);
  if (p == nullptr || !p->wrong.empty()) {
    if (error_.empty())
      error_ = fmt::format("the filter '{}' cannot be used on link type {}: {}", expression_, link_type,
                           p == nullptr ? "there are too many of them" : p->wrong);
    return false;
  }
  pcap_pkthdr header{};
  header.caplen = static_cast<bpf_u_int32>(octets.size());
  header.len = original_length;
  return ::pcap_offline_filter(&p->code, &header, octets.data()) != 0;
}

#else

struct PacketFilter::Program {};

tl::expected<std::unique_ptr<PacketFilter>, std::string> PacketFilter::make(const std::string&) {
  return tl::unexpected(std::string("this build has no libpcap: build Parley where libpcap-dev is installed"));
}

const PacketFilter::Program* PacketFilter::program(std::uint16_t) { return nullptr; }

bool PacketFilter::passes(std::uint16_t, ConstBytes, std::uint32_t) { return false; }

#endif

PacketFilter::PacketFilter(std::string expression) : expression_(std::move(expression)) {}
PacketFilter::~PacketFilter() = default;

}  // namespace parley::pcap_driver

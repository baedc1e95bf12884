// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/pcap/pcap.hpp"

#include <fmt/format.h>

namespace parley::tools {

void add_filter(Command sub, CaptureFilter& filter) {
  sub.option(
         "--filter",
         [&filter](const std::string& expression) {
           auto made = pcap_driver::PacketFilter::make(expression);
           if (!made) return fmt::format("'{}': {}", expression, made.error());
           filter = std::move(*made);
           return std::string();
         },
         "Read only the packets that this filter of tcpdump passes (pcap-filter(7)): 'tcp port 7471'")
      .type("EXPRESSION");
}

void register_pcap(Command app, Context& context) {
  Command pcap =
      app.subcommand("pcap", "Check captures and live traffic, iWARP and RoCE; draw, compare and anonymize captures");
  pcap.requires_subcommand();
  add_pcap_check(pcap, context);
  add_pcap_ladder(pcap, context);
  add_pcap_live(pcap, context);
  add_pcap_anonymize(pcap, context);
  add_pcap_matrix(pcap, context);
  add_pcap_rules(pcap, context);
}

}  // namespace parley::tools

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The iWARP messages in a TCP stream: MPA's startup frames and FPDUs (RFC 5044 §7.1.1, §4) and RDMAP's messages in them
// (RFC 5040 §4). sim/fault/message_kind_stream.hpp finds them.
#include "sim/fault/layer.hpp"

namespace parley::sim {
namespace {

constexpr KindRow mpa_kinds[] = {
    {.kind = MessageKind::mpa_request,
     .name = "request",
     .word = "mpa_request",
     .depth = LookDepth::startup,
     .fields = startup_fields},
    {.kind = MessageKind::mpa_reply,
     .name = "reply",
     .word = "mpa_reply",
     .depth = LookDepth::startup,
     .fields = startup_fields},
    {.kind = MessageKind::mpa_rtr,
     .name = "rtr",
     .word = "mpa_rtr",
     .depth = LookDepth::startup,
     .fields = startup_fields | fpdu_fields},
    {.kind = MessageKind::fpdu,
     .name = "fpdu",
     .word = "fpdu",
     .depth = LookDepth::fpdus,
     .fields = fpdu_fields,
     .numbered = true},
};
// Few connections have a Terminate, so a fault drawn for it would rarely hit.
constexpr KindRow rdmap_kinds[] = {
    {.kind = MessageKind::terminate,
     .name = "terminate",
     .word = "terminate",
     .depth = LookDepth::fpdus,
     .fields = fpdu_fields,
     .drawn = false},
};

}  // namespace

constinit const LayerTable mpa_layer{.layer = Layer::mpa,
                                     .name = "mpa",
                                     .role = LayerRole::messages,
                                     .carrier = Carrier::tcp_stream,
                                     .kinds = mpa_kinds};
constinit const LayerTable rdmap_layer{.layer = Layer::rdmap,
                                       .name = "rdmap",
                                       .role = LayerRole::messages,
                                       .carrier = Carrier::tcp_stream,
                                       .kinds = rdmap_kinds};

}  // namespace parley::sim

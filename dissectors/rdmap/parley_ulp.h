/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Passes messages to Wireshark's dissectors of protocols over iWARP. */
#ifndef PARLEY_DISSECTOR_ULP_H
#define PARLEY_DISSECTOR_ULP_H

#include "parley_rdmap.h"

/* `message`: a whole Send of several segments, or NULL. */
void parley_ulp_try(const parley_pdu* pdu, tvbuff_t* tvb, tvbuff_t* message, packet_info* pinfo, proto_tree* top,
                    const parley_segment* s);
void parley_ulp_register(void);

#endif

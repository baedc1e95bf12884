/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The beginning of a connection: data that is kept with a TCP conversation before it is known to carry MPA, and the
 * check whether octets that begin like a startup frame are one. First pass only. */
#ifndef PARLEY_BEGIN_H
#define PARLEY_BEGIN_H

#include <epan/conversation.h>

#include "parley_mpa.h"
#include "parley_tcp.h"

enum {
  PARLEY_BEGIN_TELLS =
      10, /* in a key that a packet truncates, octets 8 and 9 distinguish Request and Reply (RFC 5044 §7.1.1) */
  PARLEY_BEGIN_ENOUGH = PARLEY_MPA_KEY_LEN /* octets that are enough to identify a startup frame */
};

/* Data of a TCP conversation. Before a connection is known to carry MPA, only the first octets of a Request that
 * arrived in tiny pieces are kept. Wireshark's TCP flow identifies a sender, because both ends may have the same
 * port. */
typedef struct parley_entry {
  parley_tcp* tcp;
  guint8 head[PARLEY_BEGIN_ENOUGH];
  guint32 head_length, head_seq;
  const tcp_flow_t* head_flow; /* of the sender */
  guint32 head_frame;
  parley_tcp_segment* second_half; /* see parley_keep_second_half() */
  const tcp_flow_t* second_flow;
  guint32 syn_frame, syn_ack_frame; /* 0: not seen */
  nstime_t syn_at, syn_ack_at;
} parley_entry;

typedef enum {
  PARLEY_BEGINS_NOTHING,
  PARLEY_BEGINS_PERHAPS,
  PARLEY_BEGINS_REQUEST,
  PARLEY_BEGINS_REPLY,
  PARLEY_BEGINS_RTR,
  PARLEY_BEGINS_OTHER
} parley_beginning;

parley_entry* parley_entry_of(conversation_t* conversation);
parley_entry* parley_entry_made(conversation_t* conversation);
parley_tcp* parley_tcp_of(conversation_t* conversation);
/* The flow of this packet's sender; NULL: Wireshark's TCP dissector has none. */
const tcp_flow_t* parley_flow_of(conversation_t* conversation, packet_info* pinfo);
gboolean parley_peer_sent_nothing(packet_info* pinfo, const struct tcp_analysis* analysis);

parley_beginning parley_startup_begins(const guint8* octets, guint32 length);
gboolean parley_begins_startup(parley_beginning how);
parley_beginning parley_tvb_begins(tvbuff_t* tvb);
parley_beginning parley_believed(parley_beginning how, conversation_t* conversation, packet_info* pinfo,
                                 tvbuff_t* payload);
void parley_keep_second_half(conversation_t* conversation, packet_info* pinfo, tvbuff_t* payload,
                             const parley_tcp_header* h);
parley_beginning parley_with_second_half(conversation_t* conversation, packet_info* pinfo, tvbuff_t* payload,
                                         const parley_tcp_header* h);
parley_tcp_segment* parley_head_of(const parley_entry* e);

#endif

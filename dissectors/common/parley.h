/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Declarations that the plugin's files share. A TCP connection that carries MPA is a parley_conn; each FPDU in it is a
 * parley_pdu, made once, in stream order, when its last octet is first seen. All data has file scope.
 *
 * Each folder may use only the folders above it in this list; lint.includes checks that.
 *
 *   common/
 *   parley_protocol.c  the one protocol under which each file registers its fields, subtrees and expert items
 *   parley_ip.c        the IP header in a frame's octets; parley_tcp.c the TCP header
 *   parley_stream.c    TCP segments to octets in order (reordering, repetition, wrap, gaps)
 *   parley_crc.c       CRC32c
 *   parley_text.c      lines of text without printf
 *   neg/                a separate protocol: Parley's staged QP negotiation, docs/negotiation.md
 *   parley_neg.c       recognises it; parley_neg_conn.c one TCP connection: messages, and their order
 *   parley_neg_form.c  one message; parley_neg_show.c shows it, and messages in private data
 *   mad/                a separate protocol: management datagrams, by the table of parley/wire/mad.h
 *   parley_mad_table.c that table as data; parley_mad_fields.c its fields; shows one structure
 *   parley_mad.c       the structures of a datagram: IBA §13 to §16
 *   ib/                 two separate protocols: the InfiniBand transport over RoCE, and its CM
 *   parley_ib.c        works next to Wireshark's dissector; parley_ib_find.c finds the packet in a frame
 *   parley_ib_judge.c  the engine of `parley pcap check`: packets to it, findings from it
 *   parley_ib_words.c  texts for codes; parley_ib_show.c headers: IBA §9
 *   parley_ibcm.c      parses a CM message; parley_ibcm_fields.c, parley_ibcm_show.c show it: IBA §12
 *   parley_ib_stat.c   -z parley,roce and the statistics menu
 *   rdmap/
 *   parley_rdmap.c     DDP and RDMAP headers and messages: RFC 5041, RFC 5040, RFC 7306
 *   parley_track.c     versions, opcodes, MSN, MO, TO, messages of several segments
 *   parley_fetch.c     Reads and Atomics: requests, their responses, how many are outstanding
 *   parley_terminate.c Terminates in every variant; parley_blame.c how to read one; parley_answers.c whether it is a
 *                      correct reaction to the other side
 *   parley_ulp.c       passes whole messages to Wireshark's dissectors of protocols over iWARP
 *   mpa/
 *   parley_mpa.c       one TCP connection: classifies its octets; parley_setup.c its set-up: RFC 5044, RFC 6581, OFA
 *                      2007-10 Rtr; parley_startup.c judges the startup frames
 *   parley_fpdu.c      FPDUs, CRC; parley_markers.c markers; parley_fpdu_meaning.c an FPDU's meaning for the set-up
 *   parley_show.c      shows all of MPA
 *   parley_end.c       unfinished items at a FIN or RST
 *   parley_react.c     each side's reaction to the other side's faults and to the set-up
 *   parley_private.c   ULPs' private data
 *   parley_stat.c      -z parley,conn and the statistics menu
 *   plugin/
 *   parley_plugin.c    registration, preferences, Decode As, heuristics
 *   parley_begin.c     the beginning of a connection */
#ifndef PARLEY_DISSECTOR_H
#define PARLEY_DISSECTOR_H

#include "parley/wire/mpa.h"
#include "parley/wire/rdmap.h"
#include "parley_compat.h"

enum { PARLEY_INITIATOR = 0, PARLEY_RESPONDER = 1 };
enum { PARLEY_RTR_NONE, PARLEY_RTR_FRAME, PARLEY_RTR_SEND, PARLEY_RTR_WRITE, PARLEY_RTR_READ };
enum { PARLEY_OPEN, PARLEY_ESTABLISHED, PARLEY_REJECTED, PARLEY_FAILED };

/* A startup frame from the capture. frame 0: the capture does not have it. */
typedef struct parley_startup {
  guint32 frame;
  nstime_t at;
  guint8 flags, revision;
  guint8 key; /* PARLEY_KEY_* of parley_mpa.h */
  guint16 pd_length;
  gboolean enhanced; /* the two words below are present */
  gboolean cut;      /* the capture lacks octets of it */
  gboolean whole;    /* it has all announced octets, up to the limit of RFC 5044 §7.1.1 */
  guint16 ird, ord;  /* whole words, bits A to D included */
} parley_startup;

typedef struct parley_direction {
  gboolean crc, markers; /* of the FPDUs that this side sends */
  gint32 reads_max;      /* maximum of outstanding Reads and Atomics; -1: not negotiated */
  guint64 octets;        /* TCP payload seen, without repetitions */
  guint64 missing;       /* sent octets that the capture lacks */
  guint64 fpdus, messages;
  guint32 crc_errors, marker_errors, retransmissions, out_of_order;
  guint32 terminate_frame, fin_frame, rst_frame;
  void* stream; /* parley_stream.c, parley_mpa.c */
  void* track;  /* parley_track.c */
} parley_direction;

typedef struct parley_conn {
  guint32 number; /* from 1, by first frame */
  guint32 first_frame, last_frame;
  nstime_t first_at, last_at; /* of the TCP connection */
  gboolean syns_seen;         /* both SYNs; their times follow */
  nstime_t syn_at, syn_ack_at;
  address addr[2]; /* by side */
  guint16 port[2];
  gboolean roles_known; /* from startup frames or a preference */
  parley_startup request, reply, rtr_frame;
  guint8 rtr, rtr_agreed; /* PARLEY_RTR_*; agreed: a mask, 1 << PARLEY_RTR_* */
  gboolean peer_to_peer;
  gboolean echo_told;       /* reported: the S of its Reply may be an echo */
  guint8 outcome;           /* PARLEY_OPEN... */
  guint32 first_fpdu_frame; /* of the initiator */
  nstime_t first_fpdu_at;
  guint32 errors, warnings; /* expert items added on the first pass */
  parley_direction side[2]; /* by sender */
} parley_conn;

typedef struct parley_pdu {
  parley_conn* conn;
  guint8 from;   /* PARLEY_INITIATOR or PARLEY_RESPONDER */
  guint32 frame; /* the frame with its last octet */
  nstime_t at;
  guint64 number;   /* from 1 in its direction; 0: unknown, because octets are missing before it */
  guint64 position; /* of its first octet in the direction's FPDU stream, a leading marker included */
  guint16 ulpdu_length;
  gboolean is_rtr;      /* RFC 6581 §9.2 */
  gboolean after_gap;   /* octets before it are missing: tracking of MSN, MO and Reads restarts */
  gboolean peer_behind; /* its sender had received more of the other side's stream than the plugin has followed */
  gboolean bad_crc;     /* RFC 5044 §4.4: it is shown, but its content is ignored */
  gboolean unproven;    /* found after a gap without a CRC: it is shown, but neither judged nor trusted */
  gboolean proving;     /* found after a gap, with too few FPDUs behind it so far: no fault is reported for it */
  gboolean refuted;     /* its content does not fit the connection */
  guint64 end;          /* stream position behind it */
  guint64 heard;        /* position up to which its sender had received the other side's stream */
  void* facts;          /* parley_track.c: what to show in addition to its octets */
} parley_pdu;

static inline const char* parley_side_name(int side) { return side == PARLEY_INITIATOR ? "initiator" : "responder"; }

/* parley_protocol.c */
extern int proto_parley;
/* The protocol's preferences; the first call makes them. */
struct pref_module* parley_module(void);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* RoCE and InfiniBand in the plugin, beside Wireshark's own dissector `infiniband`, which keeps its frames, its fields and
 * its filters. A postdissector finds the packet in the octets of each frame that Wireshark took for InfiniBand; the first
 * pass joins messages and data to connections and keeps that with the frame, later passes only show it. */
#ifndef PARLEY_IB_DISSECTOR_H
#define PARLEY_IB_DISSECTOR_H

#include "parley.h"
#include "parley/wire/ib.h"
#include "parley/wire/ibcm.h"
#include "parley_compat.h"
#include "parley_mad.h"

enum { PARLEY_GID_LEN = 16, PARLEY_IBCM_FIRST = 0x0010, PARLEY_IBCM_KINDS = 11 };

enum {
#define PARLEY_X(name, attribute, structure, fields, text) PARLEY_IBCM_##name = attribute,
  PARLEY_IBCM_MESSAGES(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(name, value, text) PARLEY_IBCM_ABOUT_##name = value,
      PARLEY_IBCM_ABOUT(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(name, code, text) PARLEY_IBCM_REJECT_##name = code,
          PARLEY_IBCM_REJECTS(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(name, value, text) PARLEY_IBCM_SERVICE_##name = value,
              PARLEY_IBCM_SERVICES(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(name, value, text) PARLEY_CMA_SPACE_##name = value,
                  PARLEY_CMA_PORT_SPACES(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(name, value, text) PARLEY_IB_SERVICE_##name = value,
                      PARLEY_IB_SERVICES(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(name, code, text) PARLEY_IB_NAK_##name = code,
                          PARLEY_IB_NAKS(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(name, value, services, headers, response, text) PARLEY_IB_OPERATION_##name = value,
                              PARLEY_IB_OPERATIONS(PARLEY_X)
#undef PARLEY_X
                                  PARLEY_IB_OPCODE_UD_SEND_ONLY = PARLEY_IB_SERVICE_ud | PARLEY_IB_OPERATION_send_only
};

/* Rules that a packet may be seen to break, by itself or by what the CM told of its connection: X(name, key, clause,
 * severity). Key, clause and severity are those of `parley pcap check`, and so are the sentences; what a reader of captures
 * can say only with the packets before and behind it is left to that. The filter is "parley.rule." and the key with _ for -. */
#define PARLEY_IB_RULES(X)                                    \
  X(MAD_HEADER, "cm.mad_header", "13.4.2", PI_ERROR)          \
  X(CM_Q_KEY, "cm.q_key", "9.6", PI_ERROR)                    \
  X(CM_P_KEY, "cm.p_key", "9.6", PI_ERROR)                    \
  X(CM_RESERVED, "cm.reserved", "12.6", PI_WARN)              \
  X(CM_ROLE, "cm.role", "12.9", PI_ERROR)                     \
  X(REJ_ABOUT, "cm.rej_about", "12.6.7", PI_ERROR)            \
  X(REJ_REASON, "cm.rej_reason", "12.6.7.2", PI_ERROR)        \
  X(REJ_UNASSIGNED, "cm.rej_unassigned", "12.6.7.2", PI_WARN) \
  X(REJ_INFO, "cm.rej_info", "12.6.7", PI_ERROR)              \
  X(DREQ_QPN, "cm.dreq_qpn", "12.6.10", PI_ERROR)             \
  X(MRA_ABOUT, "cm.mra_about", "12.6.6", PI_ERROR)            \
  X(PATH_MTU, "cm.path_mtu", "12.6.5", PI_ERROR)              \
  X(CM_SERVICE, "cm.service", "12.6.5", PI_ERROR)             \
  X(REQ_QPN, "cm.req_qpn", "12.6.5", PI_ERROR)                \
  X(REP_QPN, "cm.rep_qpn", "12.6.8", PI_ERROR)                \
  X(CM_GID, "cm.gid", "12.6.5", PI_WARN)                      \
  X(CMA_HEADER, "cm.cma_header", "Annex A11", PI_WARN)        \
  X(CMA_ADDRESS, "cm.cma_address", "Annex A11", PI_WARN)      \
  X(SIDR_SERVICE, "cm.sidr_service", "12.11.2", PI_ERROR)     \
  X(SIDR_QPN, "cm.sidr_qpn", "12.11.2", PI_ERROR)             \
  X(MALFORMED, "ib.malformed", "9.2", PI_ERROR)               \
  X(TVER, "ib.tver", "9.2", PI_ERROR)                         \
  X(RESERVED, "ib.reserved", "9.2", PI_WARN)                  \
  X(UNASSIGNED, "ib.opcode", "9.2.1", PI_ERROR)               \
  X(SERVICE, "ib.service", "9.6", PI_ERROR)                   \
  X(P_KEY, "ib.p_key", "9.6", PI_ERROR)                       \
  X(UD_Q_KEY, "ib.ud_q_key", "9.6", PI_WARN)                  \
  X(PAD, "ib.pad", "9.4", PI_ERROR)                           \
  X(PAD_OCTETS, "ib.pad_octets", "9.4", PI_WARN)              \
  X(LENGTH, "ib.length", "9.7.4", PI_ERROR)                   \
  X(DMA_LENGTH, "ib.dma_length", "9.7.4", PI_ERROR)           \
  X(ATOMIC_ADDRESS, "ib.atomic_address", "9.4.5", PI_ERROR)   \
  X(SYNDROME, "ib.syndrome", "9.7.5.1", PI_ERROR)             \
  X(CREDITS, "ib.credits", "9.7.7.2", PI_WARN)

/* What Linux is known for, so that it breaks no rule: X(name, quirk, filter, clause). Names, clauses and sentences are those of
 * `parley pcap check`, which takes them from wire/ib/quirks.cpp. */
#define PARLEY_IB_QUIRKS(X)                                                                 \
  X(FORGETS_IN_TIMEWAIT, "forgets-in-timewait", "quirk.forgets_in_timewait", "12.9")        \
  X(TAKES_PATH_MTU, "takes-path-mtu", "quirk.takes_path_mtu", "12.6.7.2")                   \
  X(REJECTS_SERVICE_TYPE, "rejects-service-type", "quirk.rejects_service_type", "12.6.7.2") \
  X(TAKES_SHORT_FIRST, "takes-short-first", "quirk.takes_short_first", "9.7.4.1")           \
  X(LOOKS_READ_UP_AGAIN, "looks-read-up-again", "quirk.looks_read_up_again", "9.7.5.1.4")

typedef enum {
#define PARLEY_X(name, quirk, filter, clause) PARLEY_IB_QUIRK_##name,
  PARLEY_IB_QUIRKS(PARLEY_X)
#undef PARLEY_X
      PARLEY_IB_QUIRK_COUNT
} parley_ib_quirk;

typedef enum {
#define PARLEY_X(name, key, clause, severity) PARLEY_IB_RULE_##name,
  PARLEY_IB_RULES(PARLEY_X)
#undef PARLEY_X
      PARLEY_IB_RULE_COUNT
} parley_ib_rule;

/* What else there is to say of a packet: X(name, filter, group, severity). */
#define PARLEY_IB_REMARKS(X)                                     \
  X(ICRC, "ib.icrc.bad", PI_CHECKSUM, PI_ERROR)                  \
  X(NAK, "ib.nak", PI_RESPONSE_CODE, PI_WARN)                    \
  X(RNR, "ib.rnr", PI_RESPONSE_CODE, PI_NOTE)                    \
  X(CNP, "ib.cnp", PI_RESPONSE_CODE, PI_NOTE)                    \
  X(ATTRIBUTE, "ibcm.attribute.unknown", PI_PROTOCOL, PI_WARN)   \
  X(RETRANSMISSION, "ibcm.retransmission", PI_SEQUENCE, PI_NOTE) \
  X(REJECTED, "ibcm.rejected", PI_RESPONSE_CODE, PI_NOTE)        \
  X(CUT, "ibcm.short", PI_MALFORMED, PI_ERROR)

typedef enum {
#define PARLEY_X(name, filter, group, severity) PARLEY_IB_REMARK_##name,
  PARLEY_IB_REMARKS(PARLEY_X)
#undef PARLEY_X
      PARLEY_IB_REMARK_COUNT
} parley_ib_remark;

typedef enum { PARLEY_IB_NATIVE, PARLEY_IB_ROCE_V1, PARLEY_IB_ROCE_V2_IPV4, PARLEY_IB_ROCE_V2_IPV6 } parley_ib_carriage;

typedef struct parley_ib_gid {
  guint8 octets[PARLEY_GID_LEN];
} parley_ib_gid;

typedef struct parley_ib_operation {
  guint8 value, services, response;
  guint16 headers;
  const char* text;
} parley_ib_operation;

/* One packet. Offsets are those in `tvb`. */
typedef struct parley_ib_packet {
  tvbuff_t* tvb;
  parley_ib_carriage carriage;
  gint below;                        /* LRH, GRH or IP header, where the ICRC begins to count */
  gint grh;                          /* GRH or IPv6 header; -1: neither */
  gint bth, end;                     /* `end`: behind the ICRC, on the wire */
  gboolean plain;                    /* no options or extension headers stand between */
  parley_ib_gid source, destination; /* IPv4 as ::ffff:a.b.c.d, LIDs alone as fe01::LID */
  guint8 opcode;
  guint32 qpn, psn;
  const parley_ib_operation* operation; /* NULL: of no decoded service, or unknown */
  guint16 headers;                      /* PARLEY_IB_DETH... */
  guint16 at[16];                       /* where each header begins, by the number of its bit, from the BTH */
  guint32 source_qpn;                   /* of a DETH; 0: none */
  gint payload, payload_length;         /* without pad; -1: headers and pad do not fit */
  proto_item* syndrome;                 /* where that of an AETH is shown */
} parley_ib_packet;

typedef struct parley_ibcm_message {
  guint16 attribute;
  guint32 local_id, remote_id; /* request_id of SIDR in the former; 0: none */
  guint64 service_id;          /* of a REQ or SIDR_REQ */
  guint32 qpn;                 /* that it announces: REQ, REP, SIDR_REP; 0: none */
  guint8 transport;            /* PARLEY_IB_SERVICE_*, of a REQ or SIDR_REQ */
  guint8 about;                /* of a MRA or REJ */
  guint16 reason;              /* of a REJ */
  guint16 path_mtu;            /* of a REQ, octets; 0: not assigned */
  guint8 path_mtu_code;        /* of a REQ */
  guint8 response_timeout;     /* of a REQ: that of the remote CM */
  guint16 p_key;               /* of a REQ */
  gboolean flow_control;       /* of a REQ or REP: its sender gives credits */
  gboolean shared_receives;    /* of a REQ or REP: its sender's receives are those of a shared queue */
  guint32 q_key;               /* of a SIDR_REP that has a queue pair */
  guint64 digest;              /* of the whole body */
} parley_ibcm_message;

typedef struct parley_ib_conn parley_ib_conn;

/* One side of a connection: what a communication ID or a queue pair number leads to. */
typedef struct parley_ib_end {
  parley_ib_conn* conn;
  guint8 side; /* PARLEY_INITIATOR or PARLEY_RESPONDER */
} parley_ib_end;

/* The messages of one kind that one side sent. */
typedef struct parley_ib_sent {
  guint32 frame, copies; /* the first of them, and how many are the same as it */
  guint32 answer;        /* the frame of the first answer; 0: none was seen */
  guint32 last, psn;     /* the frame of the last of them, and its PSN: who sends it again takes another one */
  guint32 sendings;      /* of them; what was captured twice is one */
  guint64 digest;
  nstime_t at;
} parley_ib_sent;

/* A request whose answer may be a departure: a First or Middle of a Send that is too short, a Read of no octets. */
typedef struct parley_ib_odd {
  guint32 psn, frame, at; /* `at`: which request of its side it was */
  guint8 operation;
  gboolean again; /* its PSN came again */
} parley_ib_odd;

/* The last of them that one side sent. */
typedef struct parley_ib_odds {
  guint32 requests, count;
  parley_ib_odd last[64];
} parley_ib_odds;

/* What is kept with the frame that shows a departure. */
typedef struct parley_ib_departure {
  const struct parley_ib_departure* next;
  parley_ib_quirk quirk;
  guint8 from;
  const char* text; /* goes on after the side; NULL: it is not the first of its connection */
} parley_ib_departure;

/* A REQ or SIDR_REQ and all that belongs to it. It does not grow with what comes. */
struct parley_ib_conn {
  guint32 number; /* from 1, by first frame */
  parley_ib_end end[2];
  parley_ib_gid address[2];
  guint32 id[2];       /* 0: not known */
  const char* service; /* "tcp:7174" */
  guint64 service_id;
  guint8 transport;
  gboolean over;  /* a REJ or DREP was seen: what its queue pairs' numbers stand for is open again */
  guint32 qpn[2]; /* by the REQ, and the REP or SIDR_REP; 0: not known */
  guint16 path_mtu, p_key;
  guint8 path_mtu_code, response_timeout;     /* of the REQ */
  guint32 answered;                           /* the frame of the responder's newest message; 0: none was seen */
  nstime_t answered_at;                       /* when that was */
  guint32 lives;                              /* of the responder: one more whenever it has forgotten its answer */
  guint32 told;                               /* departures that were told: 1 << PARLEY_IB_QUIRK_... */
  parley_ib_odds* odds[2];                    /* NULL: none was seen */
  gboolean gives_credits[2];                  /* TRUE as long as nothing else is known */
  gboolean shared_receives[2];                /* FALSE as long as nothing else is known */
  guint32 q_key;                              /* of a service found by SIDR; 0: not known */
  guint32 psn[2];                             /* of the newest request of each side */
  gboolean asked[2];                          /* whether there was one */
  parley_ib_sent* sent[2][PARLEY_IBCM_KINDS]; /* NULL: none was seen */
};

/* What is kept with the frame of a message. */
typedef struct parley_ibcm_mark {
  const parley_ib_conn* conn;
  guint8 from;
  guint32 first, copy; /* of a retransmission: the frame of the first, and which it is, from 2; else 0 and 1 */
  guint32 request;     /* the frame of what it answers; 0: nothing, or not in the capture */
  nstime_t request_at;
  guint32 peer_qpn; /* its peer's queue pair, as far as it was known then; 0: not known, or not for sure */
  const parley_ib_departure* departure; /* NULL: none */
} parley_ibcm_mark;

/* ------------------------------------------------------------------ parley_ib_find.c: where the packet is */

/* False: none of this frame. */
gboolean parley_ib_find(packet_info* pinfo, parley_ib_packet* out);
const parley_ib_operation* parley_ib_operation_of(guint8 opcode);
/* Offset of a header in the packet's tvb. */
gint parley_ib_header_at(const parley_ib_packet* p, guint16 header);
/* Whether all of it was captured. */
gboolean parley_ib_has(const parley_ib_packet* p, gint at, gint length);
/* The same of the payload, counted from its first octet. */
gboolean parley_ib_carries(const parley_ib_packet* p, gint octet, gint length);

/* ------------------------------------------------------------------ parley_ib_icrc.c */

/* False: it cannot be told, as octets are missing. `out`: as the field holds it, most significant octet first. */
gboolean parley_ib_icrc(const parley_ib_packet* p, guint32* out);

/* ------------------------------------------------------------------ parley_ib_words.c: codes in words */

extern const value_string parley_ib_naks[];
/* In units of 10 microseconds. */
guint32 parley_ib_rnr_timer(guint8 code);
/* -1: no end-to-end flow control. */
gint32 parley_ib_credits(guint8 code);
const char* parley_ib_syndrome_words(wmem_allocator_t* scope, guint8 syndrome);
/* "RC SEND Only", "CNP", "RD opcode 0x44". */
const char* parley_ib_opcode_words(wmem_allocator_t* scope, guint8 opcode);
/* "tcp:7174", or the ID in hexadecimal. */
const char* parley_ib_service_words(wmem_allocator_t* scope, guint64 service_id);
/* What the additional information of a REJ is; NULL: octets. */
const char* parley_ibcm_ari_words(wmem_allocator_t* scope, guint16 reason, const guint8* info, guint length);
const char* parley_ib_transport_words(guint8 transport);

/* ------------------------------------------------------------------ parley_ib_conn.c: what belongs together */

void parley_ib_conn_forget(void);
/* First pass: the connection of a message, and what is to be kept of it. */
const parley_ibcm_mark* parley_ibcm_join(packet_info* pinfo, const parley_ib_packet* p, const parley_ibcm_message* m);
/* First pass: the side that sent the packet of data, or NULL. A packet of another service than the queue pair's is its
 * connection's if its PSN goes on with what was sent: otherwise the number is in other hands. */
const parley_ib_end* parley_ib_join(const parley_ib_packet* p);
/* The side that would have sent this answer, if its connection were not over: it may come behind the DREP. */
const parley_ib_end* parley_ib_answerer(const parley_ib_packet* p);

/* ------------------------------------------------------------------ parley_ib_quirks.c: known departures, first pass */

/* The responder gives itself another communication ID than before: whether it has forgotten what it answered. */
gboolean parley_ibcm_forgot(const packet_info* pinfo, const parley_ib_conn* c, const parley_ibcm_message* m);
/* Of a message that was joined, before it counts as an answer. `forgot`: as above. */
const parley_ib_departure* parley_ibcm_departure(const parley_ibcm_message* m, parley_ib_end* from, gboolean forgot);
/* Of a packet of data that was joined. */
const parley_ib_departure* parley_ib_departure_of(const packet_info* pinfo, const parley_ib_packet* p,
                                                  const parley_ib_end* from);

/* ------------------------------------------------------------------ parley_ib_show.c, parley_ibcm_show.c */

void parley_ib_show_register(void);
void parley_ibcm_show_register(void);
void parley_ib_remark_on(packet_info* pinfo, proto_item* item, parley_ib_remark remark, const char* format, ...)
    G_GNUC_PRINTF(4, 5);
/* `who`: a side, or -1. "the initiator's REQ ... [IBA §12.6]": the text goes on after the side. */
void parley_ib_tell(packet_info* pinfo, proto_item* item, parley_ib_rule rule, gint who, const char* format, ...)
    G_GNUC_PRINTF(5, 6);
/* What a known peer is known for. */
void parley_ib_tell_departure(packet_info* pinfo, proto_item* item, const parley_ib_departure* departure);
/* Shows all but the ICRC; the subtree. */
proto_tree* parley_ib_show(parley_ib_packet* p, packet_info* pinfo, proto_tree* top);
/* Where it has a NAK. */
void parley_ib_show_nak(const parley_ib_packet* p, packet_info* pinfo);
/* False: it is wrong. */
gboolean parley_ib_show_icrc(const parley_ib_packet* p, packet_info* pinfo, proto_tree* tree, gboolean check);
/* A subtree about the connection, and who of it sent this. */
proto_tree* parley_ib_show_conn(tvbuff_t* tvb, proto_tree* top, const parley_ib_conn* c, guint8 from);
/* The same for a packet of data, with what set it up. */
void parley_ib_show_end(packet_info* pinfo, tvbuff_t* tvb, proto_tree* top, const parley_ib_end* from);
const char* parley_ib_info(const parley_ib_packet* p, packet_info* pinfo, const parley_ib_end* from);

/* The payload is a datagram of the CM, as far as it was captured: false if it is none. */
gboolean parley_ibcm_is(const parley_ib_packet* p);
/* False: the message's body is not there, or not known. */
gboolean parley_ibcm_parse(const parley_ib_packet* p, parley_ibcm_message* out);
/* Of a message of the class version that is known, those that are there. */
void parley_ibcm_show_fields(const parley_ib_packet* p, proto_tree* tree, guint16 attribute);
void parley_ibcm_fields_register(void);
/* A number of the message's body, which has to be there: CM_NUMBER(p, CmReq, local_qpn). */
guint64 parley_ibcm_number(const parley_ib_packet* p, const parley_mad_field* field);
#define CM_NUMBER(p, structure, member) parley_ibcm_number(p, PARLEY_MAD_FIELD(structure, member))
/* Where a member begins in the packet's tvb. */
gint parley_ibcm_at(const parley_ib_packet* p, const parley_mad_field* field);
#define CM_AT(p, structure, member) parley_ibcm_at(p, PARLEY_MAD_FIELD(structure, member))
/* PARLEY_IBCM_LEN octets, in which the bits are set that no field of the message has. */
const guint8* parley_ibcm_reserved(guint16 attribute);
void parley_ibcm_show(const parley_ib_packet* p, packet_info* pinfo, proto_tree* top, const parley_ibcm_mark* mark);

/* ------------------------------------------------------------------ parley_ib_judge.c, parley_ibcm_judge.c */

/* Of a packet whose ICRC is right. `from`: NULL if it is of no connection. */
void parley_ib_judge(const parley_ib_packet* p, packet_info* pinfo, proto_item* item, const parley_ib_end* from,
                     gint who);
void parley_ibcm_judge(const parley_ib_packet* p, packet_info* pinfo, proto_item* item, const parley_ibcm_mark* mark);

/* Whose message it is: -1 if either side may send it. */
gint parley_ibcm_sender_of(guint16 attribute, guint8 about);

/* parley_ib.c */
extern int proto_parley_ib, proto_parley_ibcm;
void parley_ib_register(void);
void parley_ib_handoff(void);

#endif

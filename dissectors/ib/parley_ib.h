/* SPDX-License-Identifier: GPL-2.0-or-later */
/* RoCE and InfiniBand in the plugin, in addition to Wireshark's own dissector `infiniband`, which keeps its frames,
 * fields and filters. A postdissector finds the packet in the octets of each frame that Wireshark dissected as
 * InfiniBand. The first pass assigns messages and data to connections and stores that with the frame; later passes only
 * show it. */
#ifndef PARLEY_IB_DISSECTOR_H
#define PARLEY_IB_DISSECTOR_H

#include <epan/expert.h>

#include "capture/engine/parley_engine.h"
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

/* Deviations of known implementations, which count as no violation: X(name), from wire/ib/quirks.cpp. The filter is
 * "parley.quirk." and the name with _ for -. */
#define PARLEY_IB_QUIRKS(X) \
  X("forgets-in-timewait")  \
  X("takes-path-mtu")       \
  X("rejects-service-type") \
  X("takes-short-first")    \
  X("looks-read-up-again")  \
  X("retries-for-ever")

/* Other remarks on a packet: X(name, filter, group, severity). */
#define PARLEY_IB_REMARKS(X)                                     \
  X(ICRC, "ib.icrc.bad", PI_CHECKSUM, PI_ERROR)                  \
  X(NAK, "ib.nak", PI_RESPONSE_CODE, PI_WARN)                    \
  X(RNR, "ib.rnr", PI_RESPONSE_CODE, PI_NOTE)                    \
  X(CNP, "ib.cnp", PI_RESPONSE_CODE, PI_NOTE)                    \
  X(ATTRIBUTE, "ibcm.attribute.unknown", PI_PROTOCOL, PI_WARN)   \
  X(RETRANSMISSION, "ibcm.retransmission", PI_SEQUENCE, PI_NOTE) \
  X(REJECTED, "ibcm.rejected", PI_RESPONSE_CODE, PI_NOTE)        \
  X(CUT, "ibcm.short", PI_MALFORMED, PI_ERROR)                   \
  X(GAVE_UP, "ib.payload.gave_up", PI_UNDECODED, PI_NOTE)

typedef enum {
#define PARLEY_X(name, filter, group, severity) PARLEY_IB_REMARK_##name,
  PARLEY_IB_REMARKS(PARLEY_X)
#undef PARLEY_X
      PARLEY_IB_REMARK_COUNT
} parley_ib_remark;

typedef struct parley_ib_gid {
  guint8 octets[PARLEY_GID_LEN];
} parley_ib_gid;

typedef struct parley_ib_operation {
  guint8 value, services, response;
  guint16 headers;
  const char* text;
} parley_ib_operation;

/* One packet. Offsets refer to `tvb`. */
typedef struct parley_ib_packet {
  tvbuff_t* tvb;
  parley_engine_carriage carriage;
  gint below;                        /* LRH, GRH or IP header, from which the ICRC is computed */
  gint grh;                          /* GRH or IPv6 header; -1: neither */
  gint bth, end;                     /* `end`: behind the ICRC, on the wire */
  gboolean plain;                    /* there are no IP options or extension headers */
  parley_ib_gid source, destination; /* IPv4 as ::ffff:a.b.c.d, LIDs alone as fe01::LID */
  guint16 source_port;               /* RoCEv2 only */
  guint8 opcode;
  guint32 qpn, psn;
  const parley_ib_operation* operation; /* NULL: unknown, or of a service that is not decoded */
  guint16 headers;                      /* PARLEY_IB_DETH... */
  guint16 at[16];                       /* offset of each header from the BTH, by its bit number */
  guint32 source_qpn;                   /* of a DETH; 0: none */
  gint payload, payload_length;         /* without pad; -1: headers and pad do not fit */
  proto_item* syndrome;                 /* the item that shows an AETH's syndrome */
} parley_ib_packet;

typedef struct parley_ibcm_message {
  guint16 attribute;
  guint32 local_id, remote_id; /* SIDR: local_id is the request ID; 0: none */
  guint64 service_id;          /* of a REQ or SIDR_REQ */
  guint32 qpn;                 /* announced by a REQ, REP or SIDR_REP; 0: none */
  guint8 transport;            /* PARLEY_IB_SERVICE_*, of a REQ or SIDR_REQ */
  guint8 about;                /* of an MRA or REJ: the message that it refers to */
  guint16 reason;              /* of a REJ */
} parley_ibcm_message;

/* The engine's result for a packet. */
typedef struct parley_ib_view {
  const parley_engine_connection* connection; /* NULL: it belongs to no connection that CM messages set up */
  const parley_engine_connection* flow;       /* the same, or a flow of queue pairs that no message named */
  guint8 from;                                /* PARLEY_INITIATOR or PARLEY_RESPONDER */
  gboolean named;                             /* the name of its service was known at this packet */
  const parley_engine_place* message;         /* for a CM message: its place in a connection; otherwise NULL */
  gboolean icrc_known;                        /* `icrc` has the expected value */
  guint32 icrc;                               /* read least significant octet first */
  const parley_engine_finding* const* late;   /* in the first pass: findings in earlier frames that this one proved */
  size_t late_count;
} parley_ib_view;

/* ------------------------------------------------------------------ parley_ib_find.c: finds the packet */

/* False: the frame has no packet. */
gboolean parley_ib_find(packet_info* pinfo, parley_ib_packet* out);
const parley_ib_operation* parley_ib_operation_of(guint8 opcode);
/* Offset of a header in the packet's tvb. */
gint parley_ib_header_at(const parley_ib_packet* p, guint16 header);
/* Whether all `length` octets at `at` were captured. */
gboolean parley_ib_has(const parley_ib_packet* p, gint at, gint length);
/* The same for the payload, counted from its first octet. */
gboolean parley_ib_carries(const parley_ib_packet* p, gint octet, gint length);

/* ------------------------------------------------------------------ parley_ib_words.c: texts for codes */

extern const value_string parley_ib_naks[];
/* In units of 10 microseconds. */
guint32 parley_ib_rnr_timer(guint8 code);
/* -1: no end-to-end flow control. */
gint32 parley_ib_credits(guint8 code);
const char* parley_ib_syndrome_words(guint8 syndrome);
/* "RC SEND Only", "CNP", "RD opcode 0x44". */
const char* parley_ib_opcode_words(guint8 opcode);
/* "tcp:7174", or the ID in hexadecimal. */
const char* parley_ib_service_words(wmem_allocator_t* scope, guint64 service_id);
/* Text for the additional information of a REJ; NULL: it has no known form. */
const char* parley_ibcm_ari_words(wmem_allocator_t* scope, guint16 reason, const guint8* info, guint length);
const char* parley_ib_transport_words(guint8 transport);

/* ------------------------------------------------------------------ parley_ib_judge.c: the engine */

/* In the first pass this passes the packet to the engine. */
void parley_ib_place_of(packet_info* pinfo, const parley_ib_packet* p, parley_ib_view* out);
/* Shows the findings for this frame that are known so far. TRUE: a known deviation is among them. */
gboolean parley_ib_show_findings(packet_info* pinfo, tvbuff_t* tvb, proto_tree* tree, const parley_ib_view* view);
void parley_ib_judge_register(expert_module_t* module);

/* ------------------------------------------------------------------ parley_ib_show.c, parley_ibcm_show.c */

void parley_ib_show_register(void);
void parley_ibcm_show_register(void);
void parley_ib_remark_on(packet_info* pinfo, proto_item* item, parley_ib_remark remark, const char* format, ...)
    G_GNUC_PRINTF(4, 5);
/* Shows all but the ICRC; returns the subtree. */
proto_tree* parley_ib_show(parley_ib_packet* p, packet_info* pinfo, proto_tree* top);
/* Adds the remark for a NAK, if there is one. */
void parley_ib_show_nak(const parley_ib_packet* p, packet_info* pinfo);
/* Whether the packet's ICRC is that value. */
gboolean parley_ib_icrc_is(const parley_ib_packet* p, guint32 icrc);
/* False: the ICRC is wrong. */
gboolean parley_ib_show_icrc(const parley_ib_packet* p, packet_info* pinfo, proto_tree* tree,
                             const parley_ib_view* view);
/* Shows a subtree about the connection, and which side sent the packet. */
proto_tree* parley_ib_show_conn(tvbuff_t* tvb, proto_tree* top, const parley_ib_view* view);
/* The same for a data packet, with the frames of the connection's set-up. */
void parley_ib_show_end(packet_info* pinfo, tvbuff_t* tvb, proto_tree* top, const parley_ib_view* view);
/* Writes the info column. */
void parley_ib_info(const parley_ib_packet* p, packet_info* pinfo, const parley_ib_view* view);

/* Whether the payload, as far as it was captured, is a datagram of the CM. */
gboolean parley_ibcm_is(const parley_ib_packet* p);
/* False: the message's body was not captured, or is unknown. */
gboolean parley_ibcm_parse(const parley_ib_packet* p, parley_ibcm_message* out);
/* Shows the captured fields of a message of the known class version. */
void parley_ibcm_show_fields(const parley_ib_packet* p, proto_tree* tree, guint16 attribute);
void parley_ibcm_fields_register(void);
/* A number from the message's body, which must have been captured: CM_NUMBER(p, CmReq, local_qpn). */
guint64 parley_ibcm_number(const parley_ib_packet* p, const parley_mad_field* field);
#define CM_NUMBER(p, structure, member) parley_ibcm_number(p, PARLEY_MAD_FIELD(structure, member))
/* Offset of a member in the packet's tvb. */
gint parley_ibcm_at(const parley_ib_packet* p, const parley_mad_field* field);
#define CM_AT(p, structure, member) parley_ibcm_at(p, PARLEY_MAD_FIELD(structure, member))
void parley_ibcm_show(const parley_ib_packet* p, packet_info* pinfo, proto_tree* top, const parley_ib_view* view);

/* ------------------------------------------------------------------ parley_ib_stat.c */

void parley_ib_tap(packet_info* pinfo, const parley_ib_view* view);
void parley_ib_stat_register(void);

/* parley_ib.c */
extern int proto_parley_ib, proto_parley_ibcm;
void parley_ib_register(void);
void parley_ib_handoff(void);

#endif

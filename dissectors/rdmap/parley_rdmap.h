/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Declarations that the plugin's DDP and RDMAP files share: parsed headers, the first pass's results for an FPDU, and
 * the findings that become expert items. RFC 5041, RFC 5040, RFC 7306. */
#ifndef PARLEY_DISSECTOR_RDMAP_H
#define PARLEY_DISSECTOR_RDMAP_H

#include <epan/expert.h>

#include "parley.h"
#include "parley_extent.h"

void parley_rdmap_register(void);
void parley_track_register(void);

/* For each FPDU: call track once, in stream order, on the first pass; call show whenever the packet is dissected. `tvb`
 * is the ULPDU, without length, markers, pad and CRC. */
void parley_rdmap_track(parley_pdu* pdu, tvbuff_t* tvb, packet_info* pinfo);
void parley_rdmap_count(const parley_pdu* pdu, const guint8* ulpdu, guint32 octets);
void parley_rdmap_show(parley_pdu* pdu, tvbuff_t* tvb, packet_info* pinfo, proto_tree* top, proto_tree* tree);

/* One DDP segment's headers: RFC 5041 §4, RFC 5040 §4.1. */
typedef struct parley_segment {
  guint8 ddp, rdmap; /* the control octets */
  guint8 opcode;
  gboolean tagged, last;
  guint32 stag; /* tagged: STag; untagged: the STag to invalidate, or reserved */
  guint64 to;   /* tagged */
  guint32 qn, msn, mo;
  guint head;    /* 14 or 18 octets */
  guint payload; /* octets behind it, captured or not */
} parley_segment;

/* False: shorter than the header that its T bit requires. `length` is the segment's size, captured or not. */
gboolean parley_segment_read(tvbuff_t* tvb, guint length, parley_segment* s);
const char* parley_opcode_name(guint8 opcode);
gboolean parley_opcode_is_send(guint8 opcode);
gboolean parley_opcode_invalidates(guint8 opcode);
/* False: the opcode is not assigned. */
gboolean parley_opcode_rule(guint8 opcode, gboolean* tagged, guint32* qn);

/* The control word of a Terminate, RFC 5040 §4.8, in the intended reading. */
typedef struct parley_terminate {
  guint8 octet0, code, bits; /* as sent */
  guint8 layer, etype;
  gboolean m, d, r;
  gboolean swapped; /* nibbles of octet 0 exchanged; M, D, R in the low bits: Linux siw */
} parley_terminate;

/* The parts behind the control word, by M, D and R. */
typedef struct parley_terminate_parts {
  gboolean length; /* the DDP segment length */
  guint head;      /* 0, or the octets of the DDP header by its own T bit */
  guint octets;    /* size of the whole Terminate, control word included */
} parley_terminate_parts;

/* False: the control word is incomplete. */
gboolean parley_terminate_read(tvbuff_t* tvb, guint offset, parley_terminate* t);
void parley_terminate_set_swapped(parley_terminate* t, gboolean swapped);
/* `length`: size of the Terminate, captured or not. */
parley_terminate_parts parley_terminate_layout(tvbuff_t* tvb, guint offset, guint length, const parley_terminate* t);
/* Reads the DDP header that it quotes; false if it has none, or an incomplete one. */
gboolean parley_terminate_quotes(tvbuff_t* tvb, guint offset, guint length, const parley_terminate* t,
                                 parley_segment* quoted);
/* NULL: the code is not registered. */
const char* parley_terminate_text(guint8 layer, guint8 etype, guint8 code);
const char* parley_terminate_describe(wmem_allocator_t* scope, guint8 layer, guint8 etype, guint8 code);
void parley_terminate_show(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, guint offset, guint length,
                           const parley_terminate* t, proto_item** control);
void parley_terminate_register(void);

/* The place in the tree where a finding is shown. */
enum {
  PARLEY_AT_SEGMENT,
  PARLEY_AT_DDP_CONTROL,
  PARLEY_AT_RDMAP_CONTROL,
  PARLEY_AT_STAG,
  PARLEY_AT_TO,
  PARLEY_AT_QN,
  PARLEY_AT_MSN,
  PARLEY_AT_MO,
  PARLEY_AT_BODY,
  PARLEY_PLACES
};

/* X(name, group, severity, text). The name ends the filter: parley.rdmap.expert.<name>. */
#define PARLEY_FINDINGS(X)                                                                                    \
  X(too_short, PI_PROTOCOL, PI_ERROR, "ULPDU is too short for a DDP header [RFC 5041 §4]")                    \
  X(ddp_version, PI_PROTOCOL, PI_ERROR, "DDP version is not the connection's [RFC 5041 §4.1]")                \
  X(rdmap_version, PI_PROTOCOL, PI_ERROR, "RDMAP version is not the connection's [RFC 5040 §4.1]")            \
  X(reserved, PI_PROTOCOL, PI_ERROR, "Reserved bits are set [RFC 5041 §4.1, RFC 5040 §4.1]")                  \
  X(reserved_ulp, PI_PROTOCOL, PI_WARN, "Invalidate STag word is set [RFC 5040 §4.1]")                        \
  X(opcode, PI_PROTOCOL, PI_ERROR, "RDMAP opcode is not assigned [RFC 5040 §4.1]")                            \
  X(t_bit, PI_PROTOCOL, PI_ERROR, "T bit does not fit the opcode [RFC 5040 §4.2]")                            \
  X(queue, PI_PROTOCOL, PI_ERROR, "Queue number does not fit the opcode [RFC 5040 §4.2]")                     \
  X(msn, PI_SEQUENCE, PI_ERROR, "MSN is not the next one of its queue [RFC 5041 §4.3]")                       \
  X(mo, PI_SEQUENCE, PI_ERROR, "MO is not where the message goes on [RFC 5041 §5.2]")                         \
  X(order, PI_SEQUENCE, PI_WARN, "Segments are not in the order of MO or TO [RFC 5041 §5.3]")                 \
  X(stag_changed, PI_SEQUENCE, PI_ERROR, "Invalidate STag changes inside a message [RFC 5041 §4.3]")          \
  X(unfinished, PI_SEQUENCE, PI_ERROR, "Message begins before the last ends [RFC 5041 §5.2]")                 \
  X(mixed, PI_SEQUENCE, PI_ERROR, "Opcode changes inside a message [RFC 5041 §4.3]")                          \
  X(segmented, PI_SEQUENCE, PI_ERROR, "Message is cut although it has one segment [RFC 5040 §4.2]")           \
  X(to, PI_SEQUENCE, PI_ERROR, "Tagged message does not go on where it was [RFC 5041 §5.2]")                  \
  X(to_wrap, PI_SEQUENCE, PI_ERROR, "TO wraps [RFC 5041 §7.1]")                                               \
  X(read_wrap, PI_SEQUENCE, PI_WARN, "Source or sink of a Read wraps [RFC 5040 §4.8]")                        \
  X(body_length, PI_PROTOCOL, PI_ERROR, "Message has a wrong length [RFC 5040 §4, RFC 7306 §5.2, §6.3]")      \
  X(atomic, PI_PROTOCOL, PI_ERROR, "Atomic is not allowed [RFC 7306 §5]")                                     \
  X(reads_over, PI_SEQUENCE, PI_ERROR, "More Reads are outstanding than agreed [RFC 5040 §5.2.1]")            \
  X(unasked, PI_SEQUENCE, PI_ERROR, "Response has no request [RFC 5040 §5.2]")                                \
  X(sink, PI_SEQUENCE, PI_ERROR, "Response is not for the oldest request [RFC 5040 §4.5]")                    \
  X(response_length, PI_SEQUENCE, PI_ERROR, "Response is not as long as asked for [RFC 5040 §5.2]")           \
  X(after_terminate, PI_SEQUENCE, PI_ERROR, "Message follows its sender's Terminate [RFC 5040 §5.4]")         \
  X(marker_bits, PI_PROTOCOL, PI_WARN, "Bits of a marker are set that are 0 [RFC 5044 §4.3]")                 \
  X(set_up, PI_SEQUENCE, PI_ERROR, "What was agreed is not kept [RFC 5044 §7.1.2, RFC 6581 §9]")              \
  X(set_up_warning, PI_SEQUENCE, PI_WARN, "Set-up went on, or was given up, oddly [RFC 6581 §9]")             \
  X(reaction, PI_SEQUENCE, PI_WARN, "Terminate does not answer what happened [RFC 5040 §7.2, §5.4]")          \
  X(groundless, PI_SEQUENCE, PI_ERROR, "Terminate complains of what is right [RFC 5044 §4.4, RFC 5041 §5.1]") \
  X(terminate_parts, PI_PROTOCOL, PI_WARN, "Terminate has not the headers of its error [RFC 5040 §4.8]")      \
  X(terminate, PI_SEQUENCE, PI_NOTE, "Stream was terminated [RFC 5040 §5.4]")                                 \
  X(terminate_order, PI_PROTOCOL, PI_ERROR, "Terminate control word is in the wrong order [RFC 5040 §4.8]")   \
  X(terminate_type, PI_PROTOCOL, PI_WARN, "Error type 3 for an error of MPA [RFC 6580 §3.3]")                 \
  X(terminate_code, PI_PROTOCOL, PI_WARN, "Terminate has no registered meaning [RFC 5040 §4.8]")              \
  X(terminate_form, PI_PROTOCOL, PI_ERROR, "Terminate is not formed as it says [RFC 5040 §4.8]")              \
  X(terminate_header, PI_PROTOCOL, PI_ERROR, "Terminate does not carry what it says [RFC 5040 §4.8]")

typedef enum {
#define PARLEY_X(name, group, severity, text) PARLEY_FINDING_##name,
  PARLEY_FINDINGS(PARLEY_X)
#undef PARLEY_X
      PARLEY_FINDING_COUNT
} parley_finding_kind;

typedef struct parley_finding {
  struct parley_finding* next;
  parley_finding_kind kind;
  guint8 place;
  const char* text;
} parley_finding;

/* An untagged message of several segments, all in file scope. */
typedef struct parley_message {
  guint32 first_frame, last_frame; /* last_frame 0: its last segment was not seen */
  guint32 segments;
  gboolean whole, too_long;
  wmem_array_t* frames; /* guint32, without consecutive repetitions */
  wmem_array_t* octets;
} parley_message;

/* A Read or an Atomic, from its request to the last segment of its response. */
typedef struct parley_fetch {
  struct parley_fetch* next;
  gboolean atomic;
  guint32 request_frame, response_frame; /* response_frame 0: not (completely) answered */
  nstime_t request_at, response_at;
  guint32 id; /* of an Atomic */
  guint32 msn;
  guint32 sink_stag, size;
  guint64 sink_to;
} parley_fetch;

/* Made only for FPDUs with something to show. */
typedef struct parley_facts {
  parley_finding *findings, **tail;
  parley_message* message;
  parley_fetch* fetch;
  gboolean terminate_judged, terminate_swapped; /* earlier events decided how to read it */
} parley_facts;

parley_facts* parley_facts_of(parley_pdu* pdu);
/* First pass only. Also counts the finding in the connection's errors and warnings. */
void parley_find(parley_pdu* pdu, parley_finding_kind kind, guint8 place, const char* format, ...) G_GNUC_PRINTF(4, 5);
void parley_findings_show(const parley_pdu* pdu, packet_info* pinfo, proto_item* const items[PARLEY_PLACES]);

/* A fault of one side, as the Terminate that it requires. */
typedef struct parley_fault {
  gboolean known;
  gboolean any; /* no RFC says which code it requires */
  guint8 layer, etype, code;
  guint32 frame;
} parley_fault;

/* A side that has not answered by the last of these answers none. */
enum { PARLEY_FAULTS_MAX = 8 };

typedef enum {
  PARLEY_BLAME,     /* the required Terminate is known */
  PARLEY_BLAME_ANY, /* any Terminate is correct */
  PARLEY_BLAME_NOT  /* not a fault, but a peer may regard it as one */
} parley_blame_kind;

typedef struct parley_queue {
  gboolean unknown; /* next_msn is unknown; zeroed memory is a queue at its beginning, see msn_before */
  guint32 msn_before;
  parley_extent extent; /* of the present message */
  guint8 opcode;
  guint32 stag; /* RFC 5041 §4.3: the field that DDP carries for the ULP */
  parley_message* message;
} parley_queue;

typedef struct parley_write {
  parley_extent extent;
  gboolean unknown; /* it is unknown whether the next segment begins a message */
  guint32 stag;
  gboolean before_known; /* the message before it */
  guint32 before_stag;
  guint64 before_to;
} parley_write;

/* The headers of the last segments, which a Terminate of the other side may quote. */
enum { PARLEY_RECENT = 32 };
typedef struct parley_recent {
  guint8 octets[PARLEY_DDP_UNTAGGED_LEN];
  guint8 size;
  guint16 length;
  guint32 frame;
} parley_recent;

typedef struct parley_track {
  parley_queue queues[4];
  parley_write write;
  parley_fetch *fetches, **fetches_tail; /* Reads and Atomics in one order (RFC 7306 §5.1), at most fetches_max */
  guint32 fetch_count;
  gboolean fetches_unknown; /* requests or responses were missed */
  parley_extent answer;     /* of the first Read */
  gboolean answer_wrong;    /* no more faults are reported for it */
  gboolean order_told;
  gboolean lossy;
  guint32 terminate_frame;
  guint64 segments;
  parley_fault faults[PARLEY_FAULTS_MAX];
  guint8 fault_count;
  parley_fault cause;      /* the last fault, or something that a peer may regard as one */
  guint64 fault_end;       /* stream position behind the first fault */
  guint64 heard;           /* position up to which it had received when it sent its last FPDU */
  parley_fault terminated; /* its Terminate, in the intended reading */
  guint64 terminate_end;   /* stream position behind it */
  parley_recent recent[PARLEY_RECENT];
} parley_track;

parley_track* parley_track_of(parley_conn* conn, int side);
void parley_blame(parley_pdu* pdu, guint8 layer, guint8 etype, guint8 code, parley_blame_kind kind);
/* The same for octets that are not an FPDU. */
void parley_blame_at(parley_conn* conn, int side, const parley_fault* fault, guint64 end);
/* Octets of the side are missing or have no known meaning: expectations are dropped until tracking restarts. */
void parley_forget(parley_conn* conn, int side);

/* parley_fetch.c: Reads and Atomics. */
void parley_fetch_read_request(parley_pdu* pdu, tvbuff_t* tvb, const parley_segment* s);
void parley_fetch_read_response(parley_pdu* pdu, const parley_segment* s);
void parley_fetch_atomic_request(parley_pdu* pdu, tvbuff_t* tvb, const parley_segment* s);
void parley_fetch_atomic_response(parley_pdu* pdu, tvbuff_t* tvb, const parley_segment* s);

/* parley_blame.c: how to read a Terminate. */
void parley_terminate_track(parley_pdu* pdu, tvbuff_t* tvb, const parley_segment* s);

/* parley_answers.c: whether a Terminate answers a fault of the other side. */
void parley_terminate_answers(parley_pdu* pdu);
/* Text for the Terminate that a fault requires. */
const char* parley_fault_due(const parley_fault* fault);
/* A side whose own stream is faulty or incomplete cannot be blamed for not answering the peer's first fault. */
gboolean parley_blameless(const parley_conn* conn, int side, const parley_fault* first);

/* Preferences. */
extern parley_bool parley_reassemble;
#endif
